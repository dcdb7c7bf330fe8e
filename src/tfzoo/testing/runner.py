"""All contracts of one component: alone, then in models with every other component."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module

from tfzoo.base.registry import registry
from tfzoo.testing.classifiers import CLASSIFIER, in_classifiers
from tfzoo.testing.contract import CONTRACTS, STYLE, Contract, Result, run_contract
from tfzoo.testing.stacks import PLAIN, in_stacks

MODULES = (
    "style",
    "component",
    "derivatives",
    "empty",
    "texts",
    "attention",
    "mixer",
    "residual",
    "value_matrices",
    "weighting",
    "norm",
    "position",
    "feedforward",
    "pooling",
    "schedule",
    "optimizer",
    "tokenizer",
    "dataset",
    "task",
)
"""Where contracts are written: those of every component, then those of a kind."""


def check(kind: str, name: str, *, partners: str = "own") -> Iterator[Result]:
    """Run every contract of a component and every rule of style.

    In stacks and classifiers its partners are tfzoo's own components (``partners="own"``), or every
    registered one (``"all"``). Where a partner violates a contract with tfzoo's defaults as well,
    that partner is named and the result counts as held.

    >>> all(result.ok for result in check("feedforward", "relu"))
    True

    Raises:
        UnknownName: no such kind or component.
    """
    entry = registry(kind).entry(name)
    if not contracts(kind):
        yield Result(f"nothing was checked: there are no contract tests of {kind} components", True)
    for function in contracts(kind):
        yield run_contract(function, entry)
    if kind in PLAIN:
        yield from in_stacks(entry, partners)
    if kind in CLASSIFIER:
        yield from in_classifiers(entry, partners)
    for function in rules_of_style(kind):
        yield replace(run_contract(function, entry), style=True)


def contracts(kind: str) -> list[Contract]:
    """The contracts of a kind, in the order in which they are checked."""
    return _loaded(CONTRACTS, kind)


def rules_of_style(kind: str) -> list[Contract]:
    """The rules of style of a kind."""
    return _loaded(STYLE, kind)


def _loaded(table: Mapping[str, list[Contract]], kind: str) -> list[Contract]:
    """In the order of the modules, whichever of them somebody imported first."""
    names = [f"tfzoo.testing.{module}" for module in MODULES]
    for name in names:
        import_module(name)
    return sorted(table.get(kind, []), key=lambda one: names.index(one.__module__))
