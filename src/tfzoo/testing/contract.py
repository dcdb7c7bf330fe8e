"""All promises of one component."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from tfzoo.registry import registry
from tfzoo.testing.promise import PROMISES, Result, outcome
from tfzoo.testing.stacks import in_stacks

MODULES = ("component", "attention", "norm", "position", "feedforward")
"""Where promises are written down: those of every component, then those of a kind."""


def check(kind: str, name: str) -> Iterator[Result]:
    """Hold a component to every promise of its kind: alone, then in stacks with every other component.

    >>> all(result.ok for result in check("feedforward", "relu"))
    True

    Raises:
        UnknownName: no such kind or component.
    """
    entry = registry(kind).entry(name)
    for module in MODULES:
        import_module(f"tfzoo.testing.{module}")
    if kind not in PROMISES:
        yield Result(f"{kind} has no contract tests", True, "nothing was checked")
        return
    for promise in PROMISES[kind]:
        yield outcome(promise, entry)
    yield from in_stacks(entry)
