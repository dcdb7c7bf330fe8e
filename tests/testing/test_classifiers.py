"""Classifiers: what is refused would give every text one class, and every option changes something.
Their contracts are held in test_stacks.
"""

import inspect
import re
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from tests.exact import close
from tests.testing.covering import interactions
from tests.testing.rules import CHOSEN, refused_by, traits
from tfzoo.errors import Clash
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.options import StackOptions
from tfzoo.testing.component import differs
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import randomize
from tfzoo.testing.stacks import Choice
from tfzoo.testing.subject import FULL, TEXT

READING_FIRST = [name for name in CHOSEN["pooling"] if "reads_first" in traits("pooling", name)]


def constant():
    """Combinations that would give every text one class."""
    triples = interactions({kind: CHOSEN[kind] for kind in ("norm", "residual", "pooling")}, 3)
    return [Choice(**row) for row in triples if "constant-pooling" in refused_by(row)]


@pytest.mark.parametrize("clashing", constant(), ids=str)
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


SMALL: dict[str, Any] = {
    "vocab_size": 12,
    "classes": 5,
    "dim": 16,
    "heads": 4,
    "layers": 2,
    "dropout": 0.0,
    "position": "learned",
}
OTHER: dict[str, Any] = {
    "vocab_size": 13,
    "classes": 6,
    "dim": 20,
    "parallel": "two_norms",
    "pooling": "max",
    "pooled_dropout": 0.3,
    "causal": True,
    "scale_embeddings": False,
    "pad": 5,
}
"""Another value for each option that a translator has not; see test_options.py. ``allow`` alone
changes nothing by itself, and ``init_std`` and ``embedding_std`` only the start.
"""


def computed(**options):
    torch.manual_seed(0)
    model = TransformerClassifier(**{**SMALL, **options})
    randomize(model)
    with torch.no_grad():
        torch.manual_seed(1)
        return [*model.parameters(), model.train()(TEXT), model.eval()(TEXT)]


def test_every_option_of_a_classifier_is_tried():
    of_stacks = {field.name for field in fields(StackOptions)}
    named = set(inspect.signature(TransformerClassifier).parameters) - of_stacks
    assert named - OTHER.keys() == {
        "allow",
        "init_std",
        "embedding_std",
        "like",  # names a set of options
        "token_types",  # read by a call that has them
        "token_head",  # stands in place of a pooling
    }


def test_a_head_of_tokens_changes_something():
    plain = computed(pooling=None)
    assert differs(computed(pooling=None, token_head="prediction_head"), plain)


@pytest.mark.parametrize("name", OTHER)
def test_every_option_of_a_classifier_changes_something(name):
    assert differs(computed(**{name: OTHER[name]}), computed())
