"""What a contract is, how it is run, and the comparisons that contracts are made of.

Contracts run in float64, so that the rounding of a processor decides nothing: a component is built
in float64, its inputs are float64, and what must be equal is equal to :data:`EXACT`. A contract
about another dtype says so and derives its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from types import FunctionType

import torch
from torch import Tensor

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import Entry, registry

Contract = Callable[[Entry], None]
"""Raises where a component does not hold it. Its name is its title, its docstring the demand."""

CONTRACTS: dict[str, list[Contract]] = {}
"""The contracts of each kind."""

EXACT = 1e-9
"""Float64 rounds at 2e-16: this leaves room for thousands of sums and ill-conditioned norms."""

CLEAR = 1e-7
"""A difference this large is no rounding of float64."""


@dataclass(frozen=True)
class Result:
    """One contract and whether it holds. ``message`` says in one line how it does not."""

    name: str
    ok: bool
    message: str = ""


class Violation(AssertionError):
    """A contract that does not hold."""


def contract(*kinds: str) -> Callable[[Contract], Contract]:
    """Function decorator: a contract of every component of these kinds."""

    def decorate(function: Contract) -> Contract:
        for kind in kinds:
            CONTRACTS.setdefault(kind, []).append(function)
        return function

    return decorate


def title(function: Callable[..., object]) -> str:
    """``padding_has_no_influence`` as words."""
    return function.__name__.replace("_", " ")


def run_contract(function: Contract, entry: Entry) -> Result:
    """Run one contract on one component, in :func:`reproducible` conditions."""
    with reproducible():
        try:
            function(entry)
        except Exception as error:  # an unexpected error of the component violates the contract too
            return Result(title(function), False, first_line(error) + remedy(function, entry))
    return Result(title(function), True)


def remedy(function: Contract, entry: Entry) -> str:
    """What to write where a component has a trait and does not say so."""
    trait = function.__name__.removesuffix("_says_the_truth")
    known = [one for one in KINDS[entry.kind].traits if one.partition(":")[0] == trait]
    if not known or entry.traits.intersection(known):
        return ""
    return f": declare {' or '.join(map(repr, known))} in the traits of @register"


@contextmanager
def reproducible(seed: int = 0) -> Iterator[None]:
    """One seed, one thread (the tensors are small), float64 as default dtype.

    The caller's random state, threads and default dtype are restored.
    """
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]), default_dtype(torch.float64):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also notes how it was called
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """New floating-point tensors have this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def first_line(error: Exception) -> str:
    """The first line of an error. Unless it is a :class:`Violation`, its type stands before it, and
    after it the line of a component that it passed through last: ``(mine.py, line 9)``.
    """
    line = str(error).strip().partition("\n")[0]
    if isinstance(error, Violation):
        return line
    files = {
        method.__code__.co_filename
        for kind in KINDS
        for entry in registry(kind).registered.values()
        for method in vars(entry.cls).values()
        if isinstance(method, FunctionType)
    }
    frames = [one for one in extract_tb(error.__traceback__) if one.filename in files]
    place = "".join(f" ({Path(one.filename).name}, line {one.lineno})" for one in frames[-1:])
    return f"{type(error).__name__}: {line}{place}"


def assert_shape(out: Tensor, shape: Iterable[int], what: str) -> None:
    """Raise :class:`Violation` unless a tensor has this shape."""
    if tuple(out.shape) != tuple(shape):
        raise Violation(f"{what}: shape {tuple(out.shape)} instead of {tuple(shape)}")


def assert_dtype(out: Tensor, dtype: torch.dtype, what: str = "the output") -> None:
    """Raise :class:`Violation` unless a tensor has the dtype of what was given."""
    if out.dtype != dtype:
        raise Violation(f"{dtype} in, but {what} is {out.dtype}")


def assert_same(actual: Tensor, expected: Tensor, what: str, tolerance: float = EXACT) -> None:
    """Raise :class:`Violation` unless two tensors are equal up to ``tolerance``, relative to the
    largest expected number or 1.
    """
    assert_shape(actual, expected.shape, what)
    if actual.numel() == 0:
        return
    off = (actual.double() - expected.double()).abs().max().item()
    size = max(1.0, expected.double().abs().max().item())
    if not off <= tolerance * size:  # also where either is not a number
        raise Violation(f"{what}: off by {off:.3g}")


def assert_differs(actual: Tensor, other: Tensor, what: str, least: float = CLEAR) -> None:
    """Raise :class:`Violation` unless each row (the first dimension) of two tensors differs by more
    than ``least``.
    """
    off = (actual.double() - other.double()).abs().flatten(1).amax(1)
    if not bool((off > least).all()):
        raise Violation(f"{what}: nothing changed by more than {off.min().item():.3g}")


def assert_claimed(entry: Entry, trait: str, found: bool, claimed: str, unclaimed: str) -> None:
    """Raise :class:`Violation` unless what was ``found`` is what a component says of its trait:
    with ``claimed`` where it says too much, with ``unclaimed`` where it says too little.
    """
    if found != (trait in entry.traits):
        raise Violation(unclaimed if found else claimed)


def assert_same_if(
    same: bool, actual: Tensor, other: Tensor, claimed: str, unclaimed: str, bound: float = EXACT
) -> None:
    """:func:`assert_same` where two tensors are said to be the ``same``, with the message
    ``claimed``; :func:`assert_differs`, with ``unclaimed``, where they are not.
    """
    if same:
        assert_same(actual, other, claimed, bound)
    else:
        assert_differs(actual, other, unclaimed, max(bound, CLEAR))


def assert_finite(x: Tensor | None, what: str) -> None:
    """Raise :class:`Violation` unless all numbers are finite."""
    if x is None or not bool(torch.isfinite(x).all()):
        raise Violation(f"{what}: {'missing' if x is None else 'not finite'}")
