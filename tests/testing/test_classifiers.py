"""Every pooling holds every contract in a classifier with each other part, and is refused exactly
where the traits say so. Pairs of other parts are tested in stacks.
"""

import inspect
import re
from dataclasses import fields, replace
from functools import cache
from typing import Any

import pytest
import torch

from tests.exact import close
from tests.testing.covering import covering, interactions
from tests.testing.rules import CHOSEN, classifiers, refused_by, traits
from tests.testing.test_stacks import (
    OF_PARTS,
    assert_refused_as_the_traits_say,
    first_of_parts,
)
from tfzoo.errors import Clash
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.models.options import StackOptions
from tfzoo.testing.classifiers import CLASSIFIER_CONTRACTS, Choice
from tfzoo.testing.component import differs
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import randomize
from tfzoo.testing.stacks import build_allowing, violations
from tfzoo.testing.subject import FULL, TEXT

READING_FIRST = [name for name in CHOSEN["pooling"] if "reads_first" in traits("pooling", name)]


def problems(classifier):
    rules, subject = build_allowing(classifier)
    assert set(rules) == refused_by(vars(classifier))
    assert subject is not None
    every = classifier in with_a_new_part()
    contracts = [one for one in CLASSIFIER_CONTRACTS if every or one not in OF_PARTS]
    return violations(subject, rules, contracts)


@cache
def with_a_new_part():
    """Those in which some part comes first: see ``OF_PARTS``."""
    return first_of_parts(classifiers(2))


def test_a_classifier_holds_every_contract(classifier, record_property):
    """A rule that can be allowed is right only if the contract that it guards is then violated."""
    rules = refused_by(vars(classifier))
    record_property("classifier", f"allowed: {', '.join(sorted(rules))}" if rules else "ran")
    assert problems(classifier) == {}


@pytest.mark.nightly  # about 1,760 classifiers, 0.1 s each
def test_every_triple_of_parts_holds_every_contract():
    found = {str(classifier): problems(classifier) for classifier in classifiers(3)}
    assert {classifier: how for classifier, how in found.items() if how} == {}


def test_a_classifier_is_refused_exactly_where_the_traits_say_so(record_property):
    """Every triple of parts; a rule looks at no more than three."""
    for row in covering(CHOSEN, 3):
        assert_refused_as_the_traits_say(row)
        for rule in refused_by(row):
            record_property("classifier", f"refused: {rule}")


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
