"""RMS norm on a CPU, where PyTorch computes ``F.rms_norm`` one operation at a time."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.kernels import custom_functions_apply, differentiable_backward


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
