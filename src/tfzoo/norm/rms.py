"""Each token by its own size."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tfzoo.contracts import Norm
from tfzoo.registry import register
from tfzoo.values import positive


@register("norm", "rms", paper="arXiv:1910.07467, eq. 4")
class RMS(Norm):
    """Each token by its own root mean square: ``x / sqrt(mean(x^2) + eps) * weight``.

    Shapes: ``(b n d) -> (b n d)``; ``weight`` is ``(d)`` and starts at one (Zhang and Sennrich
    2019, section 3). All in fp32 and rounded once, at the end, as in ``F.rms_norm``; Llama rounds
    before the weight as well.

    Options:
        eps: keeps the root away from zero.

    Raises:
        BadOption: ``eps`` not over 0.

    >>> import torch
    >>> from tfzoo.registry import create
    >>> create("norm", "rms", dim=2)(torch.tensor([[[2.0, -2.0]]])).round()
    tensor([[[ 1., -1.]]], grad_fn=<RoundBackward0>)
    """

    def __init__(self, dim: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        positive("norm 'rms'", eps=eps)
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        wide = x.float()
        if wide.device.type == "cpu" and not torch.compiler.is_compiling():
            return RootMeanSquare.apply(wide, self.weight, self.eps).to(x.dtype)  # type: ignore[no-any-return,no-untyped-call]
        return F.rms_norm(wide, self.weight.shape, self.weight, self.eps).to(x.dtype)


class RootMeanSquare(torch.autograd.Function):
    """PyTorch runs ``F.rms_norm`` one operation at a time on a CPU; this takes fewer passes over
    memory.

    Backwards it is the layer norm of a mean that happens to be zero, but for that mean's own share
    in the gradient, which is given back.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        size = (
            torch.linalg.vector_norm(x, dim=-1, keepdim=True)
            .square_()
            .div_(x.shape[-1])
            .add_(eps)
            .rsqrt_()
        )
        ctx.save_for_backward(x, weight, size)
        return torch.mul(x, size).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, size = ctx.saved_tensors
        norm_backward = torch.ops.aten.native_layer_norm_backward
        grad_x, grad_weight, _ = norm_backward(
            grad, x, weight.shape, torch.zeros_like(size), size, weight, None, [True, True, False]
        )
        return (
            grad_x.addcmul_(size, (grad @ weight)[..., None], value=1.0 / x.shape[-1]),
            grad_weight,
            None,
        )
