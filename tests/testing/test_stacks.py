"""Every pair of attention, norm, position, feed-forward, residual placement and side holds every
contract, and every combination is refused exactly where the traits say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations as choose

import pytest
import torch

from tests.testing.covering import covering
from tests.testing.rules import (
    ALWAYS,
    TRAINING,
    can_be_allowed,
    refusals,
    refused_by,
    stacks,
    traits,
)
from tfzoo.blocks.rules import RULES
from tfzoo.errors import Clash
from tfzoo.models.transformer import Transformer
from tfzoo.registry import registry
from tfzoo.testing.contract import reproducible
from tfzoo.testing.samples import SIZES, randomize
from tfzoo.testing.stacks import (
    GUARDS,
    PLAIN,
    SIDES,
    Combination,
    build_allowing,
    combinations,
    violations,
)
from tfzoo.testing.subject import FULL, VOCABULARY, Subject


def problems(stack: Combination) -> dict[str, str]:
    rules, subject = build_allowing(stack)
    assert set(rules) == refused_by(stack)
    assert subject is not None
    return violations(subject, rules)


def test_a_stack_holds_every_contract(
    stack: Combination, record_property: Callable[[str, object], None]
) -> None:
    """A rule that can be allowed is right only if the contract that it guards is then violated."""
    record_property("stack", " and ".join(sorted(refused_by(stack))) or "ran")
    assert problems(stack) == {}


@pytest.mark.nightly
def test_every_triple_of_parts_holds_every_contract() -> None:
    found = {str(stack): problems(stack) for stack in stacks(3)}
    assert {stack: how for stack, how in found.items() if how} == {}


@pytest.mark.parametrize("side", SIDES)
def test_a_stack_is_refused_exactly_where_the_traits_say_so(side: str) -> None:
    """Every combination; those that differ in the feed-forward layer alone are alike in this."""
    for stack in combinations():
        if stack.side == side and stack.feedforward == PLAIN["feedforward"]:
            rules, built = refusals(stack)
            assert built == can_be_allowed(stack), stack
            assert set(rules) <= refused_by(stack), stack
            if built:  # what cannot be allowed stays refused, whatever other rules there are
                assert set(rules) == refused_by(stack), stack


def test_a_covering_array_has_every_pair_and_every_triple() -> None:
    rows = [(a, b, c, d) for a in "abc" for b in "de" for c in "fgh" for d in "ij" if a + c != "af"]
    for strength in (2, 3):
        chosen = covering(rows, strength)
        for columns in choose(range(4), strength):
            there = {tuple(row[i] for i in columns) for row in rows}
            assert {tuple(row[i] for i in columns) for row in chosen} == there
        assert len(chosen) < len(rows) / (4 - strength)
    assert covering(rows, 2, covered=rows) == []


def refused() -> list[Combination]:
    """For each pair of parts that is refused, one combination."""
    found = [
        stack
        for stack in combinations()
        if stack.residual == "pre" and stack.feedforward == PLAIN["feedforward"]
        if refused_by(stack)
    ]
    return list(
        {(s.side, s.attention, s.position, traits("norm", s.norm)): s for s in found}.values()
    )


def test_a_refusal_names_rule_reason_and_a_remedy_that_works() -> None:
    for clashing in refused():
        with pytest.raises(Clash) as raised, torch.device("meta"):
            clashing.module(layers=0)
        rule, message = raised.value.rule, str(raised.value)
        assert rule in refused_by(clashing)
        assert rule in message
        kinds = ("attention", "norm", "position")
        assert any(f"{kind} {getattr(clashing, kind)!r}" in message for kind in kinds)
        listed = re.search(r": ([a-z_]+(?:, [a-z_]+)*)\. ", message)
        assert listed, message
        instead = listed[1].split(", ")
        (kind,) = [kind for kind in kinds if set(instead) <= set(registry(kind).names())] or [""]
        for name in instead:
            assert rule not in refused_by(replace(clashing, **{kind: name})), (clashing, name)


def test_every_rule_that_can_be_allowed_guards_a_contract() -> None:
    assert {rule.name for rule in RULES} - GUARDS.keys() == {"unknown-length", "constant-pooling"}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("norm", name)
        for name in registry("norm").names()
        if traits("norm", name) & {ALWAYS, TRAINING}
    ]
    + [
        ("position", name)
        for name in registry("position").names()
        if "needs_length" in traits("position", name)
    ],
)
def test_an_encoder_may_have_what_a_decoder_may_not(kind: str, name: str) -> None:
    with reproducible():
        options = {**PLAIN, "dropout": 0.0, "max_length": SIZES["max_length"]}
        model = Transformer(
            VOCABULARY, SIZES["dim"], SIZES["heads"], 2, **options, encoder={kind: name}
        )
        randomize(model)
        subject = Subject(model.eval())
    assert violations(subject) == {}


def test_a_model_compiled_in_one_graph_computes_the_same() -> None:
    """Of the default components; each component is compiled by itself in its contracts."""
    with reproducible():
        module = Combination("translator", residual="pre", **PLAIN).module(layers=1)
        subject = Subject(randomize(module).eval())
        expected = subject(FULL)
        torch.compiler.reset()
        whole = torch.compile(lambda: subject(FULL), fullgraph=True, backend="eager")
        torch.testing.assert_close(whole(), expected, rtol=1e-9, atol=1e-9)
