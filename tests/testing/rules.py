"""Which combinations must be refused, stated from traits, without a look at how tfzoo decides it."""

from __future__ import annotations

from tfzoo.registry import registry
from tfzoo.testing.stacks import Combination
from tfzoo.testing.subject import hooks

ALWAYS, TRAINING = "mixes_tokens:always", "mixes_tokens:training"


def traits(kind: str, name: str) -> frozenset[str]:
    return registry(kind).entry(name).traits


def refused_by(stack: Combination) -> set[str]:
    """Every rule that a combination breaks."""
    decoder = stack.side != "encoder"
    rules = set()
    if decoder and traits("norm", stack.norm) & {ALWAYS, TRAINING}:
        rules.add("leaky-norm")
    if decoder and "needs_length" in traits("position", stack.position):
        rules.add("unknown-length")
    if "angles" in hooks(stack.position) and "rotatable" not in traits(
        "attention", stack.attention
    ):
        rules.add("unrotatable-attention")
    return rules


def can_be_allowed(stack: Combination) -> bool:
    """Whether something that runs is left when all its rules are allowed."""
    return "unknown-length" not in refused_by(stack) and not (
        "leaky-norm" in refused_by(stack) and ALWAYS in traits("norm", stack.norm)
    )
