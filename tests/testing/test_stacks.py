"""Every attention x norm x position x residual placement keeps every promise, or is refused with a
reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.testing.rules import ALWAYS, TRAINING, can_be_allowed, refused_by, traits
from tfzoo.blocks.clashes import RULES
from tfzoo.errors import Clash
from tfzoo.models.transformer import Transformer
from tfzoo.registry import registry
from tfzoo.testing.samples import SIZES, randomize
from tfzoo.testing.stacks import (
    GUARDS,
    PLAIN,
    RESIDUALS,
    SIDES,
    Combination,
    broken,
    build_allowing,
    combinations,
)
from tfzoo.testing.subject import FULL, VOCABULARY, Subject, hooks


def test_a_stack_keeps_every_promise_or_is_refused(
    stack: Combination, record_property: Callable[[str, object], None]
) -> None:
    """A refusal that can be allowed counts only if allowing it makes the promise fail that it
    guards.
    """
    torch.manual_seed(0)
    rules, subject = build_allowing(stack)
    assert (subject is not None) == can_be_allowed(stack)
    assert set(rules) <= refused_by(stack)
    if subject is None:  # what cannot be allowed stays refused, whatever else is
        record_property("stack", f"refused for good by {rules[-1]}")
        return
    assert set(rules) == refused_by(stack)
    record_property(
        "stack",
        f"refused, allowed and found to break what {' and '.join(sorted(rules))} guards"
        if rules
        else "ran",
    )
    assert broken(subject, rules) == {}


def test_as_many_are_refused_as_the_traits_say() -> None:
    names = {kind: registry(kind).names() for kind in ("attention", "norm", "position")}
    per_place = len(RESIDUALS)
    a, n, p = (len(names[kind]) for kind in names)
    mixing = sum(bool(traits("norm", name) & {ALWAYS, TRAINING}) for name in names["norm"])
    lengthy = sum("needs_length" in traits("position", name) for name in names["position"])
    turning = sum("angles" in hooks(name) for name in names["position"])
    stiff = sum("rotatable" not in traits("attention", name) for name in names["attention"])
    encoders = per_place * stiff * n * turning
    running = (n - mixing) * (a * (p - lengthy) - stiff * turning)
    decoders = per_place * (a * n * p - running)
    found = dict.fromkeys(SIDES, 0)
    for stack in combinations():
        try:
            stack.build(layers=0)
        except Clash:
            found[stack.side] += 1
    assert sum(1 for _ in combinations()) == len(SIDES) * a * n * p * per_place
    assert found == {"encoder": encoders, "decoder": decoders, "translator": decoders}


def refused() -> list[Combination]:
    return [stack for stack in combinations() if stack.residual == "pre" and refused_by(stack)]


@pytest.mark.parametrize("clashing", refused(), ids=str)
def test_a_refusal_names_rule_reason_and_a_remedy_that_works(clashing: Combination) -> None:
    with pytest.raises(Clash) as raised:
        clashing.build()
    rule, message = raised.value.rule, str(raised.value)
    assert rule in refused_by(clashing)
    assert rule in message
    assert any(
        f"{kind} {getattr(clashing, kind)!r}" in message
        for kind in ("attention", "norm", "position")
    )
    listed = re.search(r": ([a-z_]+(?:, [a-z_]+)*)\. ", message)
    assert listed, message
    (kind,) = [
        kind
        for kind in ("attention", "norm", "position")
        if set(listed[1].split(", ")) <= set(registry(kind).names())
    ] or [None]
    for name in listed[1].split(", "):
        instead = replace(clashing, **{kind: name})
        assert rule not in refused_by(instead), f"{name} instead is refused by the same rule"


def test_every_rule_that_can_be_allowed_guards_a_promise() -> None:
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
    torch.manual_seed(0)
    options = {**PLAIN, "dropout": 0.0, "max_length": SIZES["max_length"]}
    model = Transformer(
        VOCABULARY, SIZES["dim"], SIZES["heads"], 2, **options, encoder={kind: name}
    )
    randomize(model)
    assert broken(Subject(model.eval())) == {}


def sample() -> list[Combination]:
    """Each component and each residual placement at least once."""
    names = {kind: registry(kind).names() for kind in PLAIN}
    most = max(map(len, names.values()))
    return [
        Combination(
            "translator",
            residual=RESIDUALS[i % 3],
            **{kind: names[kind][i % len(names[kind])] for kind in PLAIN},
        )
        for i in range(most)
    ]


@pytest.mark.parametrize("sampled", sample(), ids=str)
def test_a_model_compiled_in_one_graph_computes_the_same(sampled: Combination) -> None:
    torch.manual_seed(0)
    stack = sampled
    if not can_be_allowed(stack):  # what a decoder cannot have, the encoder has alone
        stack = replace(stack, side="encoder")
    rules, _ = build_allowing(stack)
    subject = stack.build(rules, layers=1)
    expected = subject(FULL)
    torch.compiler.reset()
    whole = torch.compile(lambda: subject(FULL), fullgraph=True, backend="eager")
    torch.testing.assert_close(whole(), expected, rtol=1e-4, atol=1e-4)
