"""Every attention with every norm, position and residual placement, in an encoder, a decoder and a translator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, get_args

import torch

from tfzoo.blocks.clashes import RULES
from tfzoo.blocks.options import Residual, StackOptions
from tfzoo.blocks.stack import Stack
from tfzoo.errors import Clash
from tfzoo.models.transformer import Transformer
from tfzoo.registry import Entry, registry
from tfzoo.testing.promise import Result, title, told
from tfzoo.testing.samples import SIZES, randomize
from tfzoo.testing.subject import Subject, VOCABULARY

Side = Literal["encoder", "decoder", "translator"]
SIDES: tuple[Side, ...] = get_args(Side)
RESIDUALS: tuple[Residual, ...] = get_args(Residual)
PLAIN = {"attention": "scaled_dot_product", "norm": "layer", "position": "sinusoidal", "feedforward": "relu"}
"""What stands beside a component that is checked."""


@dataclass(frozen=True)
class Combination:
    """One choice of components for one side of a model."""

    side: Side
    attention: str
    norm: str
    position: str
    residual: Residual
    feedforward: str = "relu"

    def __str__(self) -> str:
        parts = [self.side, self.attention, self.norm, self.position, self.residual]
        return "-".join(parts + [self.feedforward] * (self.feedforward != "relu"))

    def build(self, allow: Collection[str] = (), layers: int = 2) -> Subject:
        """A small model of it without dropout, every parameter drawn at random; raises Clash where it is refused."""
        parts = {kind: getattr(self, kind) for kind in PLAIN}
        options = StackOptions(layers, heads=SIZES["heads"], max_length=SIZES["max_length"], dropout=0.0, residual=self.residual, **parts)
        module: Stack | Transformer
        if self.side == "translator":
            given = {key: value for key, value in vars(options).items() if key not in ("layers", "heads")}
            module = Transformer(VOCABULARY, SIZES["dim"], SIZES["heads"], layers, **given, allow=list(allow))
        else:
            module = Stack(SIZES["dim"], options, causal=self.side == "decoder", allow=allow)
        return Subject(randomize(module).eval())


def combinations(**fixed: str) -> Iterator[Combination]:
    """All there are, or those with one component given: ``combinations(norm="rms")``."""
    axes = [[fixed[kind]] if kind in fixed else registry(kind).names() for kind in ("attention", "norm", "position")]
    for side, attention, norm, position, residual in product(SIDES, *axes, RESIDUALS):
        yield Combination(side, attention, norm, position, residual)  # type: ignore[arg-type]


def neighbours(entry: Entry) -> Iterator[Combination]:
    """Those in which a component meets every other one, the rest being plain."""
    seen = set()
    for side, residual in product(SIDES, RESIDUALS):
        base = Combination(side, residual=residual, **{**PLAIN, entry.kind: entry.name})
        for kind in PLAIN:
            for name in [getattr(base, kind)] if kind == entry.kind else registry(kind).names():
                seen.add(replace(base, **{kind: name}))
    yield from sorted(seen, key=str)


def in_stacks(entry: Entry) -> Iterator[Result]:
    """The promises of stacks that hold a component, a result each."""
    return iter(())
