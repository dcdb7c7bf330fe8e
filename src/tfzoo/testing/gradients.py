"""Gradients reach every parameter, but for those that have no influence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from tfzoo.testing.contract import EXACT, Violation, assert_finite, assert_same
from tfzoo.testing.subject import TEXT, Subject

NOTHING = 1e-11
"""A gradient is taken for zero if it is smaller than this, relative to the largest gradient that it
is compared with. A gradient that cancels is a sum of up to thousands of float64 terms, each with a
relative rounding error of 1e-16.
"""
STEP = 1e-5
"""A change of a parameter, so small that no key is chosen instead of another."""


def gradients_reach_every_parameter(subject: Subject) -> None:
    """In training, every parameter has a gradient, but for those of scores that a weighting
    ignores. It may be zero where a small change of the parameter changes nothing, as for a bias of
    keys, or where a weighting is ``sparse``.
    """
    weightings = subject.traits("weighting")
    with subject.training(), torch.enable_grad():
        out = subject(TEXT)
        found = gradients_of(out[TEXT != 0] if out.dim() == 3 else out, subject.module)
        sizes = {
            name: 0.0 if gradient is None else gradient.abs().max().item()
            for name, gradient in found.items()
        }
        for name, parameter in subject.module.named_parameters():
            if (gradient := found[name]) is not None:
                assert_finite(gradient, f"gradient of {name}")
            nearby = max(size for near, size in sizes.items() if sublayer(near) == sublayer(name))
            if sizes[name] > NOTHING * nearby:
                continue
            unused = gradient is None and "ignores_scores" not in weightings
            if unused or ("sparse" not in weightings and has_influence(subject, parameter)):
                raise Violation(f"no gradient reaches {name} ({sizes[name]:.2g})")


@torch.no_grad()
def has_influence(subject: Subject, parameter: Tensor) -> bool:
    """Whether a small change of a parameter changes the outputs by more than rounding."""
    before, kept = subject(TEXT), parameter.clone()
    parameter.add_(STEP * torch.randn_like(parameter))
    change = subject(TEXT) - before
    parameter.copy_(kept)
    return bool(change.abs().max() > EXACT * max(1.0, before.abs().max().item()))


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


@torch.no_grad()
def jumps(function: Callable[[Tensor], Tensor], start: Tensor, end: Tensor) -> bool:
    """Whether a function of rows ``(... d)`` jumps on a line from one to another, which is halved
    towards the larger change again and again.
    """
    size = function(start).abs().max()
    for _ in range(40):
        middle = (start + end) / 2
        to_start, to_end = (
            (function(one) - function(middle)).abs().amax(-1, keepdim=True) for one in (start, end)
        )
        first = to_start > to_end
        start, end = torch.where(first, start, middle), torch.where(first, middle, end)
    return bool((function(start) - function(end)).abs().max() > 1e-3 * size)


def sublayer(name: str) -> str:
    """The sublayer that a parameter belongs to. Gradients are compared within one, as without norms
    they differ in size from depth to depth.
    """
    return name.rpartition(".inner.")[0] or name
