"""Which modules of a model are norms, and what takes their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.contracts import Norm
from tfzoo.registry import Spec, create, registry

ENDINGS = ("RMSNorm", "LayerNorm")
"""How the classes of other packages are called that are looked at."""

EPS = ("eps", "variance_epsilon", "epsilon")


class NotSwappable(Exception):
    """Why a module cannot be replaced."""


@dataclass(frozen=True)
class FoundNorm:
    """What is known of a norm: its width, and what can carry over. ``like`` has the dtype and the
    device that its replacement gets.
    """

    dim: int
    eps: float | None
    weight: Tensor | None
    bias: Tensor | None
    like: Tensor


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm by its class: PyTorch's, tfzoo's, or one that is called so."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm | Norm):
        return True
    return type(module).__name__.endswith(ENDINGS) and not any(module.children())


def find_norm(module: nn.Module, like: Tensor) -> FoundNorm:
    """What is known of a norm. ``like``: a parameter of its model.

    Raises:
        NotSwappable: it has no width, normalises over several axes, or computes something else.
    """
    shape = tuple(getattr(module, "normalized_shape", ()))
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    if len(shape) > 1 or (isinstance(weight, Tensor) and weight.dim() != 1):
        raise NotSwappable("it normalises over more than one axis")
    dim = len(weight) if isinstance(weight, Tensor) else (*shape, getattr(module, "dim", 0))[0]
    if not dim:
        raise NotSwappable("its width is not known")
    like = weight if isinstance(weight, Tensor) else like
    eps = next((getattr(module, name) for name in EPS if hasattr(module, name)), None)
    if eps is None and isinstance(module, nn.RMSNorm):
        eps = torch.finfo(like.dtype).eps
    found = FoundNorm(dim, eps, weight, bias, like)
    known = isinstance(module, Norm) or type(module) in (nn.LayerNorm, nn.RMSNorm)
    return found if known else checked(module, found)


@torch.no_grad()
def checked(module: nn.Module, found: FoundNorm) -> FoundNorm:
    """The same, after trying out what the module computes. A norm that multiplies by ``1 + weight``
    (Gemma's) gets this as its weight.
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
    """What a norm may compute, and with which weight."""
    if found.weight is not None:
        for name in ("layer", "rms"):
            yield name, found.weight
            yield name, 1 + found.weight


def norm_replacement(module: nn.Module, found: FoundNorm, spec: Spec) -> tuple[Norm, str]:
    """The component in a norm's place, and what did not carry over.

    Weight, bias and eps carry over where the component has them, and so does whether they are
    trained. An eps in the spec wins.
    """
    entry, options = registry("norm").options(spec)
    if "eps" in entry.options and found.eps:
        options = {"eps": found.eps, **options}
    norm: Any = create("norm", {"name": entry.name, **options}, dim=found.dim)
    norm.to(device=found.like.device, dtype=found.like.dtype).train(module.training)
    norm.dim = found.dim  # a later swap asks for it; "none" has no weight that tells it
    lost = []
    for name, old in (("weight", found.weight), ("bias", found.bias)):
        new = getattr(norm, name, None)
        if old is None:
            continue
        if isinstance(new, nn.Parameter) and new.shape == old.shape:
            with torch.no_grad():
                new.copy_(old)
            new.requires_grad_(getattr(module, name).requires_grad)
        else:
            lost.append(name)
    return norm, f"{' and '.join(lost)} dropped" if lost else ""
