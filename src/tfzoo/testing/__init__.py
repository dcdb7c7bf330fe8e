"""Contract tests for anybody's component: ``tfzoo.testing.check("attention", "mine")``."""

from collections.abc import Iterator, Sequence

from tfzoo.base.registry import registry
from tfzoo.testing import (  # noqa: F401  # each adds its contracts to CONTRACTS
    attention,
    component,
    texts,
    training,
    traits,
)
from tfzoo.testing.contract import CONTRACTS, Contract, Result, run_contract
from tfzoo.testing.stacks import PLAIN, SIDES, Combination, results

__all__ = ["Result", "check"]


def check(kind: str, name: str) -> Iterator[Result]:
    """Run every contract of a component, alone and in an encoder, a decoder and a translator whose
    other components are the defaults.

    >>> all(result.ok for result in check("feedforward", "relu"))
    True

    Raises:
        UnknownName: no such kind or component.
    """
    entry = registry(kind).entry(name)
    for function in contracts(kind):
        yield run_contract(function, entry)
    for side in SIDES if kind in PLAIN else ():
        yield from results(Combination(side, **{kind: name}))


def contracts(kind: str) -> Sequence[Contract]:
    """The contracts of a kind."""
    return CONTRACTS.get(kind, ())
