"""Finds the norms of a model and makes their replacements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.registry import Spec, create, registry
from tfzoo.contracts import Norm

ENDINGS = ("RMSNorm", "LayerNorm")
"""Ends of the class names of norms in other packages."""

EPS = ("eps", "variance_epsilon", "epsilon")
"""Names of the attribute that holds a norm's epsilon."""


class NotSwappable(Exception):
    """A module cannot be replaced; the message is the reason."""


@dataclass(frozen=True)
class FoundNorm:
    """The width, eps, weight and bias of a norm, which its replacement takes over. ``like`` has the
    dtype and the device of the replacement.
    """

    dim: int
    eps: float | None
    weight: Tensor | None
    bias: Tensor | None
    like: Tensor


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm of PyTorch or tfzoo, or its class is named like one."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm | Norm):
        return True
    return type(module).__name__.endswith(ENDINGS) and not any(module.children())


def is_centred(module: nn.Module) -> bool:
    """Whether a norm of tfzoo multiplies by ``1 + weight``."""
    return isinstance(module, Norm) and getattr(module, "centred", False) is True


def find_norm(module: nn.Module, like: Tensor) -> FoundNorm:
    """Read width, eps, weight and bias from a norm. ``like`` is any parameter of its model, for the
    dtype and device of a norm without a weight.

    Raises:
        NotSwappable: it has no width, normalises over several axes, or computes something else.
    """
    shape = tuple(getattr(module, "normalized_shape", ()))
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    like = weight if isinstance(weight, Tensor) else like
    if isinstance(weight, Tensor) and not weight.numel():  # see `norm_replacement`
        weight = None
    if isinstance(weight, Tensor) and is_centred(module):
        weight = 1 + weight
    if len(shape) > 1 or (isinstance(weight, Tensor) and weight.dim() != 1):
        raise NotSwappable("it normalises over more than one axis")
    dim = len(weight) if isinstance(weight, Tensor) else (*shape, getattr(module, "dim", 0))[0]
    if not dim:
        raise NotSwappable("its width is not known")
    eps = next((getattr(module, name) for name in EPS if hasattr(module, name)), None)
    if eps is None and isinstance(module, nn.RMSNorm):
        eps = default_eps(like)
    found = FoundNorm(dim, eps, weight, bias, like)
    known = isinstance(module, Norm) or type(module) in (nn.LayerNorm, nn.RMSNorm)
    return found if known else check_by_computing(module, found)


def default_eps(like: Tensor) -> float:
    """What ``nn.RMSNorm(eps=None)`` adds to the mean square: the epsilon of the dtype, or that of
    fp32 for narrower ones. Versions of PyTorch differ, so it is tried.
    """
    x = torch.full((1,), 2.0**-12, dtype=like.dtype, device="cpu" if like.is_meta else like.device)
    expected = F.rms_norm(x, (1,))
    known = {torch.finfo(dtype).eps for dtype in (like.dtype, torch.float32)}
    return min(known, key=lambda eps: float((F.rms_norm(x, (1,), eps=eps) - expected).abs()))


@torch.no_grad()
def check_by_computing(module: nn.Module, found: FoundNorm) -> FoundNorm:
    """Check that a norm of another package computes layer norm or RMS norm, by comparing outputs on
    one input. Returns ``found``, with ``1 + weight`` as the weight if the norm multiplies by that
    (Gemma's).

    Raises:
        NotSwappable: it computes something else, or cannot be tried.
    """
    if found.like.is_meta or found.weight is None or found.eps is None:
        raise NotSwappable("its weight or its eps is not known")
    x = torch.arange(2 * found.dim, device=found.like.device).view(1, 2, -1).sin() + 0.5
    x = x.to(found.like.dtype)
    try:
        y = module(x)
    except Exception as error:  # of any kind: it is somebody else's
        raise NotSwappable(f"it does not take (b n d): {type(error).__name__}") from None
    tolerance = 20 * max(torch.finfo(dtype).eps for dtype in (x.dtype, torch.float32))
    for name, weight in candidates(found):
        if name == "layer":
            expected = F.layer_norm(x, (found.dim,), weight, found.bias, found.eps)
        else:
            expected = F.rms_norm(x, (found.dim,), weight, found.eps)
            expected = expected if found.bias is None else expected + found.bias
        same = isinstance(y, Tensor) and y.shape == x.shape
        if same and torch.allclose(y.to(x.dtype), expected, rtol=tolerance, atol=tolerance):
            return replace(found, weight=weight)
    raise NotSwappable("it computes neither layer norm nor RMS norm")


def candidates(found: FoundNorm) -> Iterator[tuple[str, Tensor]]:
    """The norms to compare with, ``layer`` or ``rms``, each with its weight."""
    if found.weight is not None:
        for name in ("layer", "rms"):
            yield name, found.weight
            yield name, 1 + found.weight


def norm_replacement(module: nn.Module, found: FoundNorm, spec: Spec) -> tuple[Norm, str]:
    """The component that replaces a norm, and a note for the report on what did not carry over.

    Weight, bias and eps carry over where the component has them, and so does whether they are
    trained. An eps in the spec wins.
    """
    entry, options = registry("norm").options(spec)
    if "eps" in entry.options and found.eps:
        options = {"eps": found.eps, **options}
    norm: Any = create("norm", {"name": entry.name, **options}, dim=found.dim)
    norm.to(device=found.like.device, dtype=found.like.dtype).train(module.training)
    norm.dim = found.dim  # read by `find_norm` in a later swap: norm "none" has no weight
    if not hasattr(norm, "weight"):  # some models read its dtype, such as Mamba
        empty = torch.empty(0, dtype=found.like.dtype, device=found.like.device)
        norm.register_buffer("weight", empty, persistent=False)
    lost = []
    for name, old in (("weight", found.weight), ("bias", found.bias)):
        new = getattr(norm, name, None)
        if old is None:
            continue
        if isinstance(new, nn.Parameter) and new.shape == old.shape:
            with torch.no_grad():
                new.copy_(old - 1 if name == "weight" and is_centred(norm) else old)
            new.requires_grad_(getattr(module, name).requires_grad)
        else:
            lost.append(name)
    return norm, f"{' and '.join(lost)} dropped" if lost else ""
