"""A linear map of an activation, whose output is computed again in the backward and not kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base import products
from tfzoo.base.custom_autograd import custom_functions_apply, differentiable_backward
from tfzoo.base.products import call, is_plain


def linear_of(activation: Callable[[Tensor], Tensor], z: Tensor, linear: nn.Linear) -> Tensor:
    """``linear(activation(z))``, for which the backward keeps ``z`` and not ``activation(z)``, at
    the price of computing that twice. ``activation`` draws no random numbers, and leaves ``z`` as
    it is.

    The module itself is called where something could depend on that: with hooks, of another class
    (an adapter, a quantised one), while a graph is traced; or where nothing would be saved.
    """
    keeps = (
        torch.is_grad_enabled()
        and z.requires_grad
        and type(linear) is nn.Linear
        and is_plain(linear)
    )
    if not keeps or not linear.weight.requires_grad or not custom_functions_apply(z):
        return call(linear, activation(z))
    return LinearOf.apply(activation, z, linear.weight, linear.bias)  # type: ignore[no-any-return,no-untyped-call]


class LinearOf(torch.autograd.Function):
    """``activation(z) W^T + b``, which keeps ``z`` alone."""

    @staticmethod
    def forward(
        ctx: Any,
        activation: Callable[[Tensor], Tensor],
        z: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(z, weight, bias)
        ctx.activation = activation
        return products.linear(activation(z), weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, weight, bias = ctx.saved_tensors
        if torch.is_grad_enabled():

            def formula(z: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
                return F.linear(ctx.activation(z), weight, bias)

            inputs = (z, weight) if bias is None else (z, weight, bias)
            found = differentiable_backward(formula, inputs, grad)
            return None, *found, *([None] if bias is None else [])
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            hidden = ctx.activation(z)
        # under autocast the product was of another dtype than the weight
        back = products.linear(grad, weight.to(grad.dtype).T).to(hidden.dtype)
        (to_z,) = torch.autograd.grad(hidden, z, back)
        grad = grad.reshape(-1, grad.shape[-1])
        rows = hidden.detach().reshape(-1, hidden.shape[-1]).to(grad.dtype)
        to_bias = grad.sum(0).to(bias.dtype) if ctx.needs_input_grad[3] else None
        return None, to_z, products.linear(grad.T, rows.T).to(weight.dtype), to_bias
