"""Contracts about derivatives, in float64: gradients, second derivatives, ``torch.func``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from tfzoo.base.registry import Entry
from tfzoo.testing.component import every_component
from tfzoo.testing.contract import Violation, assert_same, first_line
from tfzoo.testing.probes import PROBES, inputs
from tfzoo.testing.samples import build_randomized, variants

REFUSAL = re.compile(
    r"twice|second derivative|double backward|setup_context|functorch|torch\.func|vmap|forward-mode"
    r"|forward AD|jvp|batching rule",
    re.IGNORECASE,
)
"""A refusal names what is refused."""


@every_component
def gradients_are_those_of_the_output(entry: Entry) -> None:
    """``torch.autograd.gradcheck`` holds in float64 for all inputs and parameters, unless
    ``surrogate_gradient`` is declared.
    """
    if "surrogate_gradient" in entry.traits:
        return
    for options in variants(entry):
        for function, tensors in _functions(entry, options):
            _gradcheck(torch.autograd.gradcheck, function, tensors, options)


@every_component
def second_derivatives_are_right_or_refused(entry: Entry) -> None:
    """``torch.autograd.gradgradcheck`` holds, or a RuntimeError says that it cannot be
    differentiated twice; unless ``surrogate_gradient`` is declared.
    """
    if "surrogate_gradient" in entry.traits:
        return
    for function, tensors in _functions(entry, {}):
        try:
            _gradcheck(torch.autograd.gradgradcheck, function, tensors, {})
        except (RuntimeError, NotImplementedError) as error:
            _clear(error)


@every_component
def torch_func_works_or_is_refused(entry: Entry) -> None:
    """``torch.func.grad``, ``torch.func.jvp`` and ``torch.func.vmap`` give what a loop and autograd
    give, or a RuntimeError says that they do not work here.
    """
    module = build_randomized(entry).eval()
    given = dict(inputs())
    names = [name for name, one in given.items() if one.is_floating_point()]

    def loss(*tensors: Tensor) -> Tensor:
        outs = PROBES[entry.kind](module, {**given, **dict(zip(names, tensors, strict=True))})
        return torch.stack([one.sin().sum() for one in outs]).sum()

    tensors = tuple(given[name].clone().requires_grad_() for name in names)
    directions = tuple(torch.randn_like(one) for one in tensors)
    value = loss(*tensors)
    if not value.requires_grad:
        return
    grads = torch.autograd.grad(value, tensors, allow_unused=True)
    expected = [
        torch.zeros_like(t) if g is None else g for t, g in zip(tensors, grads, strict=True)
    ]
    plain = tuple(one.detach() for one in tensors)
    batch = tuple(torch.stack([one, one]) for one in plain)
    transforms: dict[str, Callable[[], Any]] = {
        "grad": lambda: torch.func.grad(loss, tuple(range(len(plain))))(*plain),
        "jvp": lambda: torch.func.jvp(loss, plain, directions)[1],
        "vmap": lambda: torch.func.vmap(loss)(*batch),
    }
    slope = torch.stack([(g * d).sum() for g, d in zip(expected, directions, strict=True)]).sum()
    wanted = {"grad": expected, "jvp": [slope], "vmap": [value.detach().expand(2)]}
    for name, transform in transforms.items():
        try:
            found = transform()
        except (RuntimeError, NotImplementedError) as error:
            _clear(error)
            continue
        found = list(found) if isinstance(found, tuple) else [found]
        for one, other in zip(found, wanted[name], strict=True):
            assert_same(one, other, f"torch.func.{name}")


def _functions(
    entry: Entry, options: dict[str, Any]
) -> Iterator[tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...]]]:
    """What the component computes, as a function of its inputs and parameters.

    The tensors are changed in place by :func:`torch.autograd.gradcheck`, so that the function may
    read them from the module.
    """
    module = build_randomized(entry, options)
    floats = {
        name: one.clone().requires_grad_()
        for name, one in inputs().items()
        if one.is_floating_point()
    }

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = {**inputs(), **dict(zip(floats, tensors, strict=False))}
        return tuple(one for one in PROBES[entry.kind](module, given) if one.requires_grad)

    if function(*floats.values()):
        yield function, (*floats.values(), *module.parameters())


def _gradcheck(
    check: Callable[..., bool],
    function: Callable[..., tuple[Tensor, ...]],
    tensors: tuple[Tensor, ...],
    options: dict[str, Any],
) -> None:
    try:
        check(function, tensors, fast_mode=True, check_undefined_grad=False)
    except GradcheckError as error:
        raise Violation(f"{first_line(error)} {options or ''}".strip()) from None


def _clear(error: Exception) -> None:
    """Raise :class:`Violation` unless the error names what is refused."""
    if not REFUSAL.search(str(error)):
        raise Violation(f"refused without saying what: {first_line(error)}") from error
