"""Every attention with every norm, position and residual placement, in an encoder, a decoder and a
translator.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, Protocol, get_args

import torch

from tfzoo.blocks.options import Residual, StackOptions
from tfzoo.blocks.stack import Stack
from tfzoo.errors import Clash
from tfzoo.models.transformer import Transformer
from tfzoo.registry import Entry, registry
from tfzoo.testing.promise import Result, Violation, alike, title, told
from tfzoo.testing.samples import SIZES, randomize
from tfzoo.testing.stack_promises import (
    STACK_PROMISES,
    StackPromise,
    later_tokens_have_no_influence_while_training,
    turned_scores_depend_on_distance_alone,
)
from tfzoo.testing.subject import VOCABULARY, Subject

Side = Literal["encoder", "decoder", "translator"]
SIDES: tuple[Side, ...] = get_args(Side)
RESIDUALS: tuple[Residual, ...] = get_args(Residual)
PLAIN: Mapping[str, str] = {
    kind: inspect.signature(Transformer).parameters[kind].default
    for kind in ("attention", "norm", "position", "feedforward")
}
"""What stands beside a component that is checked: a model's defaults."""

GUARDS: Mapping[str, StackPromise] = {
    "leaky-norm": later_tokens_have_no_influence_while_training,
    "unrotatable-attention": turned_scores_depend_on_distance_alone,
}
"""What would break if a clash that can be allowed were not refused."""


@dataclass(frozen=True)
class Combination:
    """One choice of components for one side of a model."""

    side: Side
    attention: str
    norm: str
    position: str
    residual: Residual
    feedforward: str = PLAIN["feedforward"]

    def __str__(self) -> str:
        parts = [self.side, self.attention, self.norm, self.position, self.residual]
        return "-".join(parts + [self.feedforward] * (self.feedforward != PLAIN["feedforward"]))

    def build(self, allow: Collection[str] = (), layers: int = 2) -> Subject:
        """A small model of it without dropout, every parameter drawn at random; raises Clash where
        it is refused.
        """
        parts = {kind: getattr(self, kind) for kind in PLAIN}
        options = StackOptions(
            layers,
            heads=SIZES["heads"],
            max_length=SIZES["max_length"],
            dropout=0.0,
            residual=self.residual,
            **parts,
        )
        module: Stack | Transformer
        if self.side == "translator" and self.residual == "none":
            layers = 1  # averages of averages are all alike, and then nothing depends on anything
        if self.side == "translator":
            given = {
                key: value for key, value in vars(options).items() if key not in ("layers", "heads")
            }
            module = Transformer(
                VOCABULARY, SIZES["dim"], SIZES["heads"], layers, **given, allow=list(allow)
            )
        else:
            module = Stack(SIZES["dim"], options, causal=self.side == "decoder", allow=allow)
        randomize(module)
        return Subject(module.eval())


def combinations(**fixed: str) -> Iterator[Combination]:
    """All there are, or those with one component given: ``combinations(norm="rms")``."""
    axes = [
        [fixed[kind]] if kind in fixed else registry(kind).names()
        for kind in ("attention", "norm", "position")
    ]
    for side, attention, norm, position, residual in product(SIDES, *axes, RESIDUALS):
        yield Combination(side, attention, norm, position, residual)  # type: ignore[arg-type]


def neighbours(entry: Entry) -> Iterator[Combination]:
    """Those in which a component meets each other one, the rest being plain."""
    for side in SIDES:
        base = Combination(side, residual="pre", **{**PLAIN, entry.kind: entry.name})
        yield base
        for residual in RESIDUALS[1:]:
            yield replace(base, residual=residual)
        for kind in PLAIN.keys() - {entry.kind}:
            for name in registry(kind).names():
                if name != PLAIN[kind]:
                    yield replace(base, **{kind: name})  # type: ignore[arg-type]  # a kind of component, not the side


class Buildable(Protocol):
    """A choice of components that a small model can be made of; raises Clash where it is refused."""

    def build(self, allow: Collection[str] = ()) -> Subject: ...


def build_allowing(combination: Buildable) -> tuple[list[str], Subject | None]:
    """The rules by which a combination is refused, one after the other, and the model that allowing
    them gives, if it can be.
    """
    allow: list[str] = []
    while True:
        try:
            return allow, combination.build(allow)
        except Clash as clash:
            if clash.rule in allow:
                return allow, None
            allow.append(clash.rule)


def broken(
    subject: Subject, allow: Collection[str] = (), promises: Sequence[StackPromise] = STACK_PROMISES
) -> dict[str, str]:
    """The promises that a model does not keep, and how.

    A rule that is allowed must be there for a reason: the promise that it guards is kept out, and
    has to fail.
    """
    found = {}
    guarded = {GUARDS[rule].__name__: rule for rule in allow}
    for promise in promises:
        rule = guarded.get(promise.__name__)
        with alike(1), torch.no_grad():
            try:
                promise(subject)
            except Exception as error:
                if rule is None or not isinstance(error, Violation):
                    found[title(promise)] = told(error)
            else:
                if rule is not None:
                    found[title(promise)] = f"kept, so {rule} refuses it without need"
    return found


def in_stacks(entry: Entry) -> Iterator[Result]:
    """The promises of stacks that hold a component, a result each."""
    return kept(neighbours(entry), STACK_PROMISES, "in stacks")


def kept(
    combinations: Iterable[Any], promises: Sequence[StackPromise], where: str
) -> Iterator[Result]:
    """The promises of many models, a result each."""
    failures: dict[str, list[str]] = {title(promise): [] for promise in promises}
    counts: Counter[str] = Counter()
    for combination in combinations:
        with alike():
            try:
                allow, subject = build_allowing(combination)
            except Exception as error:
                failures.setdefault("it can be built", []).append(f"{combination}: {told(error)}")
                continue
        counts[f"{allow[0]} {'allowed' if subject else 'refused'}" if allow else "ran"] += 1
        for name, how in (broken(subject, allow, promises) if subject else {}).items():
            failures[name].append(f"{combination}: {how}")
    for name, found in failures.items():
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield Result(f"{where}, {name}", not found, found[0] + more if found else "")
    yield Result(
        f"{where} of every other component",
        True,
        ", ".join(f"{n} {what}" for what, n in counts.items()),
    )
