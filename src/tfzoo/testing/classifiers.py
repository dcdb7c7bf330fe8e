"""Components in a classifier, each with each other one."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tfzoo.base.registry import Entry
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.testing.classifier_contracts import CLASSIFIER_CONTRACTS
from tfzoo.testing.contract import Result
from tfzoo.testing.draw import draw
from tfzoo.testing.samples import SIZES
from tfzoo.testing.stacks import PLAIN, name_of, others, results, together
from tfzoo.testing.subject import VOCABULARY, Subject

CLASSES = 5
CLASSIFIER: Mapping[str, str] = {
    kind: inspect.signature(TransformerClassifier).parameters[kind].default
    for kind in (*PLAIN, "pooling")
}
"""A classifier's defaults, which stand beside a component that is checked."""


@dataclass(frozen=True)
class Choice:
    """One choice of components for a classifier, whose stack is an encoder or a decoder."""

    side: Literal["encoder", "decoder"] = "encoder"
    attention: str = CLASSIFIER["attention"]
    norm: str = CLASSIFIER["norm"]
    position: str = CLASSIFIER["position"]
    residual: str = CLASSIFIER["residual"]
    pooling: str = CLASSIFIER["pooling"]
    feedforward: str = CLASSIFIER["feedforward"]
    weighting: str = CLASSIFIER["weighting"]
    mixer: str = CLASSIFIER["mixer"]

    def __str__(self) -> str:
        return name_of(self, {**CLASSIFIER, "side": "encoder"}) or "plain"

    def module(self, allow: Collection[str] = (), layers: int = 1) -> TransformerClassifier:
        """A small model of it without dropout; raises Clash where it is refused. Of one layer:
        stacks are checked with two.
        """
        return TransformerClassifier(
            VOCABULARY,
            CLASSES,
            SIZES["dim"],
            SIZES["heads"],
            layers,
            **{kind: getattr(self, kind) for kind in CLASSIFIER},
            causal=self.side == "decoder",
            max_length=SIZES["max_length"],
            dropout=0.0,
            allow=list(allow),
        )

    def build(self, allow: Collection[str] = ()) -> Subject:
        """:meth:`module` with every parameter drawn at random, in evaluation mode."""
        return draw(self.module(allow))


def neighbours(entry: Entry, partners: str = "own") -> Iterator[Choice]:
    """Those in which a component meets each other one."""
    for side in ("encoder", "decoder"):
        base = replace(Choice(), **{"side": side, entry.kind: entry.name})
        yield base
        yield from together(base, others(entry, CLASSIFIER, partners))


def in_classifiers(entry: Entry, partners: str = "own") -> Iterator[Result]:
    """The contracts of classifiers that hold a component, a result each."""
    found = neighbours(entry, partners)
    return results(entry, found, CLASSIFIER, CLASSIFIER_CONTRACTS, "in classifiers")
