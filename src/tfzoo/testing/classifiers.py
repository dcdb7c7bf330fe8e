"""Every attention with every norm, position, residual placement and pooling, in a classifier."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from tfzoo.blocks.options import Residual
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.registry import Entry, registry
from tfzoo.testing.classifier_promises import CLASSIFIER_PROMISES
from tfzoo.testing.promise import Result
from tfzoo.testing.samples import SIZES, randomize
from tfzoo.testing.stacks import RESIDUALS, kept
from tfzoo.testing.subject import VOCABULARY, Subject

CLASSES = 5
CLASSIFIER: Mapping[str, str] = {
    kind: inspect.signature(TransformerClassifier).parameters[kind].default
    for kind in ("attention", "norm", "position", "feedforward", "pooling")
}
"""What stands beside a component that is checked: a classifier's defaults."""


@dataclass(frozen=True)
class Choice:
    """One choice of components for a classifier."""

    attention: str
    norm: str
    position: str
    residual: Residual
    pooling: str
    feedforward: str = CLASSIFIER["feedforward"]

    def __str__(self) -> str:
        parts = [self.attention, self.norm, self.position, self.residual, self.pooling]
        return "-".join(
            parts + [self.feedforward] * (self.feedforward != CLASSIFIER["feedforward"])
        )

    def build(self, allow: Collection[str] = ()) -> Subject:
        """A small model of it without dropout, every parameter drawn at random; raises Clash where
        it is refused.

        Of one layer: stacks are checked with two.
        """
        model = TransformerClassifier(
            VOCABULARY,
            CLASSES,
            SIZES["dim"],
            SIZES["heads"],
            1,
            attention=self.attention,
            norm=self.norm,
            position=self.position,
            feedforward=self.feedforward,
            pooling=self.pooling,
            max_length=SIZES["max_length"],
            residual=self.residual,
            dropout=0.0,
            allow=list(allow),
        )
        randomize(model)
        return Subject(model.eval())


def choices(**fixed: str) -> Iterator[Choice]:
    """All there are, or those with one component given: ``choices(norm="rms")``."""
    kinds = ("attention", "norm", "position", "pooling")
    axes = [[fixed[kind]] if kind in fixed else registry(kind).names() for kind in kinds]
    for attention, norm, position, pooling, residual in product(*axes, RESIDUALS):
        yield Choice(attention, norm, position, residual, pooling)  # type: ignore[arg-type]


def neighbours(entry: Entry) -> Iterator[Choice]:
    """Those in which a component meets each other one, the rest being plain."""
    base = Choice(residual="pre", **{**CLASSIFIER, entry.kind: entry.name})
    yield base
    for residual in RESIDUALS[1:]:
        yield replace(base, residual=residual)
    for kind in CLASSIFIER.keys() - {entry.kind}:
        for name in registry(kind).names():
            if name != CLASSIFIER[kind]:
                yield replace(base, **{kind: name})  # type: ignore[arg-type]  # a kind of component, not the residual placement


def in_classifiers(entry: Entry) -> Iterator[Result]:
    """The promises of classifiers that hold a component, a result each."""
    return kept(neighbours(entry), CLASSIFIER_PROMISES, "in classifiers")
