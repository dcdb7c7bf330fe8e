"""How a promise is written down, kept or broken, and told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from tfzoo.registry import Entry

Promise = Callable[[Entry], None]
"""A function that raises when a component does not keep the promise that it is named after."""

PROMISES: dict[str, list[Promise]] = {}
"""The promises of each kind, in the order in which they are checked."""


@dataclass(frozen=True)
class Result:
    """One promise and whether it was kept; ``message`` says how it was broken, in one line."""

    name: str
    ok: bool
    message: str = ""


class Violation(AssertionError):  # read as `raise Broken(...)`
    """A promise that does not hold."""


def promise(*kinds: str) -> Callable[[Promise], Promise]:
    """Function decorator: a promise of every component of these kinds. The function's name is what
    it promises.
    """

    def decorate(function: Promise) -> Promise:
        for kind in kinds:
            PROMISES.setdefault(kind, []).append(function)
        return function

    return decorate


def title(function: Callable[..., object]) -> str:
    """``padding_has_no_influence`` as words."""
    return function.__name__.replace("_", " ")


def outcome(function: Promise, entry: Entry) -> Result:
    """Whether a component keeps a promise. Drawn from one fixed seed; the caller's random state
    stays as it was.
    """
    with alike():
        try:
            function(entry)
        except Exception as error:  # a component that raises where it should not breaks its promise, whatever it raises
            return Result(title(function), False, told(error))
    return Result(title(function), True)


@contextmanager
def alike(seed: int = 0) -> Iterator[None]:
    """The same every time: drawn from one seed, on one thread (several would only wait for each
    other over such small tensors).

    The caller's random state and threads stay as they were.
    """
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also notes how it was called
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def told(error: Exception) -> str:
    """The first line of an error, with its type unless it is a broken promise's own words."""
    line = str(error).strip().partition("\n")[0]
    return line if isinstance(error, Violation) else f"{type(error).__name__}: {line}"


def same(actual: Tensor, expected: Tensor, what: str, tolerance: float = 1e-4) -> None:
    """Raise :class:`Violation` unless two tensors are equal up to rounding, measured by the largest
    number expected.
    """
    if actual.shape != expected.shape:
        raise Violation(f"{what}: shape {tuple(actual.shape)} instead of {tuple(expected.shape)}")
    if actual.numel() == 0:
        return
    off = (actual.double() - expected.double()).abs().max().item()
    if not off <= tolerance * max(
        1.0, expected.double().abs().max().item()
    ):  # also where either is not a number
        raise Violation(f"{what}: off by {off:.3g}")


def differ(actual: Tensor, other: Tensor, what: str, least: float = 1e-4) -> None:
    """Raise :class:`Violation` unless each row (the first dimension) of two tensors differs
    clearly.
    """
    off = (actual.double() - other.double()).abs().flatten(1).amax(1)
    if not bool((off > least).all()):
        raise Violation(f"{what}: nothing changed by more than {off.min().item():.3g}")


def finite(x: Tensor | None, what: str) -> None:
    """Raise :class:`Violation` unless all numbers are finite."""
    if x is None or not bool(torch.isfinite(x).all()):
        raise Violation(f"{what}: {'missing' if x is None else 'not finite'}")
