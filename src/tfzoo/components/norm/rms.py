"""RMS norm, by own functions on a CPU, where PyTorch computes it one operation at a time."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.kernels import custom_functions_apply, differentiable_backward
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.contracts import Norm


@register("norm", "rms", paper="arXiv:1910.07467, eq. 4")
class RMS(Norm):
    """Divide each token by its root mean square: ``x / sqrt(mean(x^2) + eps) * weight``.

    Shapes: ``(b n d) -> (b n d)``; ``weight`` is ``(d)`` and starts at one (Zhang and Sennrich
    2019, section 3). Computed in fp32 or better and rounded once, at the end, as in
    ``F.rms_norm``; Llama rounds before the weight as well.

    Options:
        eps: added to the mean square.
        centred: multiply by ``1 + weight``, where ``weight`` starts at zero (Gemma): weight decay
            then pulls the factor to one.

    Raises:
        BadOption: ``eps`` not over 0.

    >>> import tfzoo, torch
    >>> tfzoo.create("norm", "rms", dim=2)(torch.tensor([[[2.0, -2.0]]])).round()
    tensor([[[ 1., -1.]]], grad_fn=<RoundBackward0>)
    """

    def __init__(self, dim: int, *, eps: float = 1e-6, centred: bool = False) -> None:
        super().__init__()
        check_range("norm 'rms': eps", eps, gt=0)
        self.eps, self.centred = eps, centred
        self.weight = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, 0.0 if self.centred else 1.0)

    def factor(self, dtype: torch.dtype) -> Tensor:
        """What tokens are multiplied by: ``(d)``"""
        weight = self.weight.to(dtype)
        return 1.0 + weight if self.centred else weight

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        dtype = compute_dtype(x, self.weight)
        return rms_norm(x.to(dtype), self.factor(dtype), self.eps).to(x.dtype)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last axis; ``x`` and ``weight`` are of one
    dtype, fp32 or float64.
    """
    if x.device.type == "cpu" and custom_functions_apply():
        return RMSNormFunction.apply(x, weight, eps)  # type: ignore[no-any-return,no-untyped-call]
    return F.rms_norm(x, weight.shape, weight, eps)


class RMSNormFunction(torch.autograd.Function):
    """The backward is that of a layer norm with mean 0, plus the term by which they differ.

    A layer norm subtracts the mean over channels of ``grad * weight`` from the gradient, because
    its mean depends on ``x``. Here there is no mean, so this term is added again.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        rstd = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, rstd)
        ctx.eps = eps
        return torch.mul(x, rstd).mul_(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, rstd = ctx.saved_tensors
        if torch.is_grad_enabled():

            def formula(x: Tensor, weight: Tensor) -> Tensor:
                return F.rms_norm(x, weight.shape, weight, ctx.eps)

            return *differentiable_backward(formula, (x, weight), grad), None
        layer_norm_backward = torch.ops.aten.native_layer_norm_backward
        mean = torch.zeros_like(rstd)
        grad_x, grad_weight, _ = layer_norm_backward(
            grad, x, weight.shape, mean, rstd, weight, None, [True, True, False]
        )
        grad_x.addcmul_(rstd, (grad @ weight)[..., None], value=1.0 / x.shape[-1])
        return grad_x, grad_weight, None
