"""All promises of one component."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from tfzoo.registry import registry
from tfzoo.testing.classifiers import CLASSIFIER, in_classifiers
from tfzoo.testing.promise import PROMISES, Promise, Result, outcome
from tfzoo.testing.stacks import PLAIN, in_stacks

MODULES = (
    "component",
    "attention",
    "norm",
    "position",
    "feedforward",
    "pooling",
    "schedule",
    "tokenizer",
    "dataset",
)
"""Where promises are written down: those of every component, then those of a kind."""


def check(kind: str, name: str) -> Iterator[Result]:
    """Hold a component to every promise of its kind: alone, then in stacks with every other
    component.

    >>> all(result.ok for result in check("feedforward", "relu"))
    True

    Raises:
        UnknownName: no such kind or component.
    """
    entry = registry(kind).entry(name)
    if not promises(kind):
        yield Result(f"nothing was checked: there are no contract tests of {kind} components", True)
    for promise in promises(kind):
        yield outcome(promise, entry)
    if kind in PLAIN:
        yield from in_stacks(entry)
    if kind in CLASSIFIER:
        yield from in_classifiers(entry)


def promises(kind: str) -> list[Promise]:
    """What components of a kind promise, in the order in which it is checked."""
    for module in MODULES:
        import_module(f"tfzoo.testing.{module}")
    return PROMISES.get(kind, [])
