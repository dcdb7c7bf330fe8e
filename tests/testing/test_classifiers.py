"""Classifiers are refused where every text would get one class, and nowhere else."""

import re
from dataclasses import replace

import pytest

from tests.exact import close
from tests.testing.classifiers import Choice, named
from tests.testing.covering import interactions
from tests.testing.rules import CHOSEN, refused_by, traits
from tfzoo.errors import Clash
from tfzoo.testing.contract import reproducible
from tfzoo.testing.subject import FULL

READING_FIRST = [name for name in CHOSEN["pooling"] if "reads_first" in traits("pooling", name)]


def constant():
    """Combinations that would give every text one class."""
    triples = interactions({kind: CHOSEN[kind] for kind in ("norm", "residual", "pooling")}, 3)
    return [Choice(**row) for row in triples if "constant-pooling" in refused_by(row)]


@pytest.mark.parametrize("clashing", constant(), ids=named)
def test_a_classifier_is_refused_only_where_every_text_would_get_one_class(clashing, monkeypatch):
    """Without the refusal, nothing is left of a text but, at most, its length."""
    monkeypatch.setattr("tfzoo.models.classifier.check_clashes", lambda *args, **named: None)
    with reproducible():
        out = clashing.build()(FULL)
    close(out, out[:1].expand_as(out))


@pytest.mark.parametrize("reader", READING_FIRST)
def test_a_pooling_of_the_first_token_is_refused_where_it_sees_no_other(reader, monkeypatch):
    """Without the refusal, all texts that begin alike get the same logits."""
    clashing = Choice("decoder", pooling=reader)
    with pytest.raises(Clash, match=r"other tokens: convolution, last, max.*cannot be allowed"):
        clashing.module(["first-token-pooling"])
    monkeypatch.setattr("tfzoo.models.classifier.check_clashes", lambda *args, **named: None)
    text = FULL.clone()
    text[:, 0] = FULL[0, 0]
    with reproducible():
        out = clashing.build()(text)
    close(out, out[:1].expand_as(out))


def test_the_refusal_names_poolings_that_work():
    for clashing in constant():
        with pytest.raises(Clash, match="cannot be allowed") as raised:
            clashing.module()
        assert raised.value.rule == "constant-pooling"
        listed = re.search(
            r"Poolings that depend on more than the mean: ([a-z_, ]+)\.", str(raised.value)
        )
        assert listed
        for pooling in listed[1].split(", "):
            assert refused_by(vars(replace(clashing, pooling=pooling))) == set()
