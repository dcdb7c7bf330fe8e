"""Every pair of parts holds every contract, or is refused exactly where traits say so."""

import re
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from tests.exact import close
from tests.testing.allowed import build_allowing, violations
from tests.testing.classifiers import contracts_of, named
from tests.testing.covering import covering, interactions
from tests.testing.rare import OF_STACKS
from tests.testing.rules import (
    ALWAYS,
    CHOSEN,
    STACK,
    TRAINING,
    can_be_allowed,
    classifiers,
    reads_all,
    refusals,
    refused_by,
    stacks,
    traits,
)
from tfzoo.base.registry import registry
from tfzoo.errors import Clash
from tfzoo.models.transformer import Transformer
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import SIZES, randomize
from tfzoo.testing.stacks import PLAIN, Combination, gradients_reach_every_parameter
from tfzoo.testing.subject import FULL, VOCABULARY, Subject

OF_PARTS = OF_STACKS
"""A third of the time. Each part holds them alone, so a part is tried in one stack, not in all."""


@cache
def with_a_new_part():
    """Stacks, and classifiers, in which some part comes first."""
    return [*first_of_parts(stacks(2)), *first_of_parts(classifiers(2))]


def first_of_parts(models):
    found, seen = [], set[tuple[str, str]]()
    for model in models:
        if not vars(model).items() <= seen:
            found.append(model)
        seen |= vars(model).items()
    return found


def problems(model):
    """With four sizes of parameters: without a norm, large and small ones hide influence."""
    every = model in with_a_new_part()
    asked = [one for one in contracts_of(model) if every or one not in OF_PARTS]
    for scale in (0.7, 0.5, 0.3, 1.0):
        rules, subject = build_allowing(model, scale)
        assert set(rules) == refused_by(vars(model))
        assert subject is not None
        found = violations(subject, rules, asked)
        if not found:
            break
    return found


def test_a_model_holds_every_contract(model):
    """A rule that can be allowed is right only if the contract that it guards is then violated."""
    assert problems(model) == {}


@pytest.mark.nightly  # about 1,860 stacks, 0.2 s each, and 1,760 classifiers, 0.1 s each
@pytest.mark.parametrize("models", [stacks, classifiers])
def test_every_triple_of_parts_holds_every_contract(models):
    found = {named(model): problems(model) for model in models(3)}
    assert {model: how for model, how in found.items() if how} == {}


@pytest.mark.parametrize("columns", [STACK, CHOSEN], ids=["stack", "classifier"])
def test_a_model_is_refused_exactly_where_the_traits_say_so(columns):
    """Every triple of parts; a rule looks at no more than three."""
    for row in covering(columns, 3):
        rules, built = refusals(row)
        assert built == can_be_allowed(row), row
        assert set(rules) <= refused_by(row), row
        if built:  # what cannot be allowed stays refused, whatever other rules there are
            assert set(rules) == refused_by(row), row


def test_each_pair_of_parts_is_tested_or_refused_by_a_rule():
    """Or nothing reads one: an attention beside a mixer that no translator can have."""
    rows = [vars(stack).items() for stack in stacks(2)]
    for pair in interactions(STACK, 2):
        if not any(pair.items() <= row for row in rows):
            alone = not reads_all({**pair, "side": "encoder"}, STACK)
            assert not can_be_allowed(pair) or (
                alone and refused_by({**pair, "side": "translator"})
            ), pair


def refused():
    """For each pair of parts that is refused, a combination with the defaults."""
    pairs = [pair for pair in interactions(STACK, 2) if refused_by(pair)]
    return [Combination(**{"side": "encoder", **pair}) for pair in pairs]


def test_a_refusal_names_rule_reason_and_a_remedy_that_works():
    for clashing in refused():
        with pytest.raises(Clash) as raised, torch.device("meta"):
            clashing.module(layers=0)
        rule, message = raised.value.rule, str(raised.value)
        assert rule in refused_by(vars(clashing))
        assert rule in message
        assert any(f"{kind} {getattr(clashing, kind)!r}" in message for kind in PLAIN)
        listed = re.search(r": ([a-z_]+(?:, [a-z_]+)*)\. ", message)
        assert listed, message
        instead = listed[1].split(", ")
        (kind,) = [kind for kind in PLAIN if set(instead) <= set(registry(kind).names())] or [""]
        for name in instead:
            other = replace(clashing, **{kind: name})
            assert rule not in refused_by(vars(other)), (clashing, name)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind, said in (("norm", {ALWAYS, TRAINING}), ("position", {"needs_length"}))
        for name in registry(kind).names()
        if traits(kind, name) & said
    ],
)
def test_an_encoder_may_have_what_a_decoder_may_not(kind, name):
    with reproducible():
        options = {**PLAIN, "dropout": 0.0, "max_length": SIZES["max_length"]}
        sizes = (VOCABULARY, SIZES["dim"], SIZES["heads"], 2)
        model = Transformer(*sizes, **options, encoder={kind: name})
        randomize(model)
        subject = Subject(model.eval())
    assert violations(subject) == {}


def test_a_parameter_that_gets_no_gradient_is_noticed_with_influence_or_none():
    with reproducible():
        subject = Combination("encoder").build()
        layer = subject.module.layers[0].feedforward.inner
        idle = nn.Parameter(torch.ones(3))
        layer.register_parameter("idle", idle)
        for _ in range(2):
            found = violations(subject, (), [gradients_reach_every_parameter])
            assert "idle" in " ".join(found.values())
            layer.register_forward_hook(lambda part, args, out: out + idle.detach().std() * args[0])


def test_a_model_compiled_in_one_graph_computes_the_same():
    """Of the default components; each component is compiled by itself in its contracts."""
    with reproducible():
        module = Combination("translator").module(layers=1)
        subject = Subject(randomize(module).eval())
        expected = subject(FULL)
        torch.compiler.reset()
        whole = torch.compile(lambda: subject(FULL), fullgraph=True, backend="eager")
        close(whole(), expected)
