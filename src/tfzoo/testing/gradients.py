"""Gradients reach every parameter, but for those that provably have no influence."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from tfzoo.contracts import Norm
from tfzoo.testing.contract import Violation, assert_finite
from tfzoo.testing.excuses import excuses, score_parameters, subtracts_mean_over_tokens
from tfzoo.testing.samples import SIZES
from tfzoo.testing.subject import TEXT, Subject

NOTHING = 1e-11
"""A gradient is taken for zero if it is smaller than this, relative to the largest gradient that it
is compared with. A gradient that cancels is a sum of up to thousands of float64 terms, each with a
relative rounding error of 1e-16.
"""


def gradients_reach_every_parameter(subject: Subject) -> None:
    """In training, every parameter has a gradient, except where it provably has no influence. With
    a ``sparse`` weighting, those that make scores may have none, and with a norm that subtracts the
    mean over a text, those of the whole attention, whose queries may all look at one key; with one
    that ``needs_positive_scores``, those by which heads are combined. Where a pooling reads one
    token, so may those of positions, of mixers without attention, and of a whole attention sublayer
    whose weighting ``needs_positive_scores``.
    """
    with subject.training(), torch.enable_grad():
        out = subject(TEXT)
        out = out[TEXT != 0] if out.dim() == 3 else out
        if not list(subject.module.parameters()):
            return
        found = gradients_of(out, subject.module)
        excused = excuses(subject)
    sizes = {
        name: 0.0 if gradient is None else gradient.abs().max().item()
        for name, gradient in found.items()
    }
    largest = max(sizes.values(), default=0.0)
    may_have_none = unsure(subject)
    for name, size in sizes.items():
        if (gradient := found[name]) is not None:
            assert_finite(gradient, f"gradient of {name}")
        nearby = max(other for near, other in sizes.items() if sublayer(near) == sublayer(name))
        nothing = size <= NOTHING * nearby or size == 0
        if nothing and name not in excused and name not in may_have_none:
            raise Violation(f"no gradient reaches {name} ({size:.2g})")
        if size > NOTHING * largest and name in excused:
            raise Violation(f"{name} has a gradient ({size:.2g}), although {excused[name]}")


def unsure(subject: Subject) -> set[str]:
    """Parameters that may have a gradient or none, as the text will have it."""
    found = set[str]()
    names = [name for name, _ in subject.module.named_parameters()]
    norms = [one for one in subject.module.modules() if isinstance(one, Norm)]
    if "sparse" in subject.traits("weighting"):
        found |= {name for name, _ in score_parameters(subject.module)}
        if any(subtracts_mean_over_tokens(one, by_row=True) for one in norms):
            inside = {f"{sublayer(name)}.inner." for name in found}
            found |= {name for name in names if name.startswith(tuple(inside))}
    if "needs_positive_scores" in subject.traits("weighting"):
        found |= {name for name in names if ".inner.attention." in name}
    attends = "attends" in subject.traits("mixer")
    silent = attends and "needs_positive_scores" in subject.traits("weighting")
    reads_one = any(map(reads_one_token, subject.parts("pooling")))
    if not reads_one or (attends and not silent):
        return found
    parts = {*subject.parts("mixer"), *subject.parts("position")}
    modules = [name for name, one in subject.module.named_modules() if one in parts]
    inside = {sublayer(f"{name}.") if silent else f"{name}." for name in modules}
    return found | {name for name in names if name.startswith(tuple(inside))}


def reads_one_token(pooling: nn.Module) -> bool:
    """Whether the output of a pooling depends on one token alone."""
    x = torch.randn(1, 6, SIZES["dim"], requires_grad=True)
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(pooling(x).sin().sum(), x)
    return int(gradient.abs().amax(-1).count_nonzero()) == 1


def gradients_of(
    out: Tensor, module: nn.Module, x: Tensor | None = None
) -> dict[str, Tensor | None]:
    """The gradients of a random sum of outputs, of every parameter and of ``x``, by name."""
    named = {**({} if x is None else {"x": x}), **dict(module.named_parameters())}
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


def sublayer(name: str) -> str:
    """The sublayer that a parameter belongs to. Gradients are compared within one, as without norms
    they differ in size from depth to depth.
    """
    return name.rpartition(".inner.")[0] or name
