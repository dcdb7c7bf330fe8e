"""All contracts of one component: alone, then in models with every other component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfzoo.base.registry import registry
from tfzoo.testing import (  # noqa: F401  # each adds its contracts to CONTRACTS
    attention,
    component,
    dataset,
    derivatives,
    feedforward,
    mixer,
    norm,
    optimizer,
    pooling,
    position,
    residual,
    schedule,
    sizes,
    task,
    texts,
    tokenizer,
    value_matrices,
    weighting,
)
from tfzoo.testing.contract import CONTRACTS, Contract, Result, run_contract
from tfzoo.testing.samples import COMPONENT_KINDS
from tfzoo.testing.stacks import Choice, Combination, neighbours, results
from tfzoo.testing.style import RULES


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
    for models, where in (Combination, "in stacks"), (Choice, "in classifiers"):
        if kind in models.defaults:
            found = neighbours(entry, models, partners)
            yield from results(entry, found, models.contracts, where)
    for function in rules_of_style(kind):
        yield replace(run_contract(function, entry), style=True)


def contracts(kind: str) -> Sequence[Contract]:
    """The contracts of a kind."""
    return CONTRACTS.get(kind, ())


def rules_of_style(kind: str) -> Sequence[Contract]:
    """The rules of style of a kind."""
    return RULES if kind in COMPONENT_KINDS else ()
