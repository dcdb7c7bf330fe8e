"""What a contract is, how it is run, and the comparisons that contracts are made of.

Contracts run in float64, so that the rounding of a processor decides nothing: a component is built
in float64, its inputs are float64, and what must be equal is equal to :data:`EXACT`. A contract
about another dtype says so and derives its bound.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from typing import TypeVar

import torch
from torch import Tensor, nn

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import Entry, registry

Subject = TypeVar("Subject")
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


class NotTried(Exception):
    """A contract about what another package decides; the message says what."""


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


def trait(kind: str, name: str) -> Callable[[Callable[[Entry], bool]], Contract]:
    """Function decorator: the contract that a component of this kind declares a trait exactly where
    it has it, as the function finds.
    """

    def decorate(has: Callable[[Entry], bool]) -> Contract:
        def says_the_truth(entry: Entry) -> None:
            found, what = has(entry), f"{name!r} ({KINDS[kind].traits[name]})"
            if found and name not in entry.traits:
                raise Violation(f"it has the trait {what}: declare it in the traits of @register")
            if name in entry.traits and not found:
                raise Violation(f"it declares the trait {what}, and does not have it")

        says_the_truth.__name__ = f"{name}_says_the_truth"
        return contract(kind)(says_the_truth)

    return decorate


def run_contract(function: Callable[[Subject], None], subject: Subject) -> Result:
    """Run one contract on what it is about, in :func:`reproducible` conditions."""
    with reproducible():
        try:
            function(subject)
        except NotTried as why:
            return Result(title(function), True, f"not tried: {why}")
        except Exception as error:  # an unexpected error of the component violates the contract too
            return Result(title(function), False, first_line(error))
    return Result(title(function), True)


@contextmanager
def reproducible() -> Iterator[None]:
    """One seed, one thread (the tensors are small), float64 as default dtype.

    The caller's random state, threads and default dtype are restored.
    """
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # torch.manual_seed also notes how it was called
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)


def first_line(error: Exception) -> str:
    """The first line of an error, or the name of the method that is not implemented. Unless it is a
    :class:`Violation`, its type stands before it, and after it the line of a component that it
    passed through last: ``(mine.py, line 9)``.
    """
    frames = [*walk_tb(error.__traceback__)]
    line = str(error).strip().partition("\n")[0] or frames[-1][0].f_code.co_name
    if isinstance(error, Violation):
        return line
    modules = {
        entry.cls.__module__ for kind in KINDS for entry in registry(kind).registered.values()
    }
    places = [
        f" ({Path(frame.f_code.co_filename).name}, line {number})"
        for frame, number in frames
        if frame.f_globals.get("__name__") in modules
    ]
    return f"{type(error).__name__}: {line}{''.join(places[-1:])}"


def difference(actual: Tensor, expected: Tensor) -> float:
    """The largest difference of two tensors, relative to the largest expected number or 1; NaN
    where either is not a number.
    """
    if actual.numel() == 0:
        return 0.0
    off = (actual.double() - expected.double()).abs().max().item()
    return off / max(1.0, expected.double().abs().max().item())


def assert_same(actual: Tensor, expected: Tensor, what: str, tolerance: float = EXACT) -> None:
    """Raise :class:`Violation` unless the :func:`difference` of two tensors is ``tolerance`` at
    most.
    """
    if actual.shape != expected.shape:
        raise Violation(f"{what}: shape {tuple(actual.shape)} instead of {tuple(expected.shape)}")
    if not difference(actual, expected) <= tolerance:  # also where either is not a number
        raise Violation(f"{what}: off by {difference(actual, expected):.3g}")


def assert_finite(x: Tensor | None, what: str) -> None:
    """Raise :class:`Violation` unless all numbers are finite."""
    if x is None or not bool(torch.isfinite(x).all()):
        raise Violation(f"{what}: {'missing' if x is None else 'not finite'}")


NOTHING = 1e-11
"""A gradient is taken for zero if it is smaller than this, relative to the largest gradient that it
is compared with. A gradient that cancels is a sum of up to thousands of float64 terms, each with a
relative rounding error of 1e-16.
"""


def gradients_of(
    out: Tensor, module: nn.Module, x: Tensor | None = None
) -> dict[str, Tensor | None]:
    """Gradients of a random sum of outputs by name, of every parameter and of ``x``; or None."""
    named = {**({} if x is None else {"x": x}), **dict(module.named_parameters())}
    if not out.requires_grad:
        return dict.fromkeys(named)
    found = torch.autograd.grad(
        (out * torch.randn_like(out)).sum(), list(named.values()), allow_unused=True
    )
    return dict(zip(named, found, strict=True))


def assert_gradients(found: Mapping[str, Tensor | None], where: str = "") -> None:
    """Raise :class:`Violation` unless every gradient is there, finite, and larger than the rounding
    of the largest. ``x`` may have none, as not everything depends on the text.
    """
    sizes = {name: one.abs().max().item() for name, one in found.items() if one is not None}
    largest = max(sizes.values(), default=0.0)
    for name, gradient in found.items():
        if gradient is None and name == "x":
            continue
        assert_finite(gradient, f"gradient of {name}{where}")
        if not sizes[name] > NOTHING * largest:
            raise Violation(f"no gradient reaches {name}{where}")


def assert_same_gradients(
    out: Tensor, expected: Tensor, inputs: Sequence[Tensor], what: str
) -> None:
    """Raise :class:`Violation` unless a random sum of outputs has the gradients of what is
    expected.
    """
    upstream = torch.randn_like(out)
    ours, theirs = (torch.autograd.grad((x * upstream).sum(), inputs) for x in (out, expected))
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one, other, f"gradient, {what}")


def assert_gradients_finite(outs: list[Tensor], parameters: Sequence[Tensor], what: str) -> None:
    """Raise :class:`Violation` unless a backward pass gives finite gradients."""
    loss = torch.stack([one.square().sum() for one in outs]).sum()
    if loss.requires_grad and parameters:
        for found in torch.autograd.grad(loss, parameters, allow_unused=True):
            if found is not None:
                assert_finite(found, f"gradient of {what}")
