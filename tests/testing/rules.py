"""Which combinations must be refused, stated from traits, without a look at how tfzoo decides it;
and the combinations that are tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from functools import cache
from typing import TypeVar

from tests.testing.covering import covering
from tfzoo.blocks.clashes import check_clashes
from tfzoo.blocks.options import StackOptions
from tfzoo.errors import Clash
from tfzoo.registry import registry
from tfzoo.testing.classifiers import Choice, choices
from tfzoo.testing.stacks import Combination, combinations
from tfzoo.testing.subject import hooks

ALWAYS, TRAINING = "mixes_tokens:always", "mixes_tokens:training"
Combined = TypeVar("Combined", Combination, Choice)


@cache
def traits(kind: str, name: str) -> frozenset[str]:
    return registry(kind).entry(name).traits


@cache
def rotates(position: str) -> bool:
    return "angles" in hooks(position)


def refused_by(one: Combination | Choice) -> set[str]:
    """Every rule that a combination breaks."""
    decoder = isinstance(one, Combination) and one.side != "encoder"
    rules = {
        "leaky-norm": decoder and bool(traits("norm", one.norm) & {ALWAYS, TRAINING}),
        "unknown-length": decoder and "needs_length" in traits("position", one.position),
        "unrotatable-attention": rotates(one.position)
        and "rotatable" not in traits("attention", one.attention),
        "constant-pooling": isinstance(one, Choice)
        and one.residual != "none"
        and "averages" in traits("pooling", one.pooling)
        and "centres_texts" in traits("norm", one.norm),
    }
    return {name for name, broken in rules.items() if broken}


def can_be_allowed(one: Combination | Choice) -> bool:
    """Whether something that runs is left when all its rules are allowed."""
    rules = refused_by(one)
    return not rules & {"unknown-length", "constant-pooling"} and not (
        "leaky-norm" in rules and ALWAYS in traits("norm", one.norm)
    )


def refusals(one: Combination | Choice) -> tuple[list[str], bool]:
    """The rules by which tfzoo refuses a combination, and whether allowing them builds it. Nothing
    is built: :func:`check_clashes` is what every constructor calls.
    """
    kinds = ("attention", "norm", "position", "feedforward", "residual")
    options = StackOptions(**{kind: getattr(one, kind) for kind in kinds})
    causal = isinstance(one, Combination) and one.side != "encoder"
    pooling = one.pooling if isinstance(one, Choice) else None
    allow: list[str] = []
    while True:
        try:
            check_clashes(options, causal, allow, pooling)
        except Clash as clash:
            if clash.rule in allow:
                return allow, False
            allow.append(clash.rule)
        else:
            return allow, True


def tested(everything: Sequence[Combined], strength: int) -> list[Combined]:
    """Every pair (``strength`` 2) or triple (3) of parts in a model that runs; those that never do,
    in one that is allowed.
    """
    rows = {astuple(one): one for one in everything}
    running = [row for row, one in rows.items() if not refused_by(one)]
    allowed = [row for row, one in rows.items() if refused_by(one) and can_be_allowed(one)]
    chosen = covering(running, strength)
    return [rows[row] for row in [*chosen, *covering(allowed, strength, running)]]


@cache
def stacks(strength: int) -> list[Combination]:
    return tested(list(combinations()), strength)


@cache
def classifiers(strength: int) -> list[Choice]:
    return tested(list(choices()), strength)
