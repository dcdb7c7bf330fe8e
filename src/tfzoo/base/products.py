"""``x W^T + b`` on processors for which PyTorch's own library of products, MKL, is the slow one.

On AMD's of family 26, MKL reaches half of what oneDNN does, which PyTorch has built in and uses for
other dtypes; on those of family 25, oneDNN gains little. ``benchmarks/products.py`` measures both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base import adapters
from tfzoo.base.custom_autograd import custom_functions_apply, differentiable_backward

SMALLEST = 2**27
"""Multiplications from which a product pays for the code that oneDNN makes, and keeps, for its
sizes: those of a batch of training are often new.
"""
SMALLEST_REPEATED = 2**20
"""The same for the steps of a decoder, whose sizes stay."""
LARGE = 2**20
"""Numbers of a weight from which a copy in another order pays after few products."""
_kept: ContextVar[KeptWeights | None] = ContextVar("copies of weights", default=None)


@cache
def mkl_is_slow() -> bool:
    """Whether this processor is AMD's, and oneDNN is there."""
    try:
        amd = "AuthenticAMD" in Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:  # no Linux
        return False
    return amd and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x W^T + b``, by oneDNN where that is the faster way, in fp32 on a CPU, and by ``F.linear``
    anywhere else: ``(* i), (o i), (o) -> (* o)``.
    """
    if not goes_by_onednn(x, weight, bias):
        return F.linear(x, weight, bias)
    if not torch.is_grad_enabled():
        kept = _kept.get()
        return by_onednn(x, weight if kept is None else kept.in_order(weight, x), bias)
    # In rows: what a custom function returns must be no view of something it made.
    rows: Tensor = LinearFunction.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    return rows.view(*x.shape[:-1], weight.shape[0])


def goes_by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
    """Whether oneDNN is to compute :func:`linear`."""
    if torch.compiler.is_compiling():  # a graph is for any number of rows
        return False
    smallest = SMALLEST if _kept.get() is None else SMALLEST_REPEATED
    return (
        x.numel() * weight.shape[0] >= smallest
        and mkl_is_slow()
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and (bias is None or bias.dtype == torch.float32)
        and all(type(one) in (Tensor, nn.Parameter) for one in (x, weight))
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
        and custom_functions_apply(x, weight)
    )


def by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """:func:`linear`, without gradients."""
    y: Tensor = adapters.onednn_linear(x, weight, bias)
    return y


class KeptWeights:
    """Weights that stay the same for many products, such as those of a decoder's steps. Products
    inside :meth:`used` read a copy in oneDNN's order from their second time on, which costs about
    as much as a product.
    """

    def __init__(self) -> None:
        self.copies: dict[int, tuple[Tensor, int, Tensor | None]] = {}

    def __reduce__(self) -> tuple[type[KeptWeights], tuple[()]]:
        return KeptWeights, ()  # what is copied or stored makes its own

    @contextmanager
    def used(self) -> Iterator[None]:
        """Inside it, :func:`linear` reads the copies, where no gradient is computed."""
        token = _kept.set(self)
        try:
            yield
        finally:
            _kept.reset(token)

    def in_order(self, weight: Tensor, x: Tensor) -> Tensor:
        """A copy of a large parameter, ``(o i)``; itself at first, and where it is none."""
        if type(weight) is not nn.Parameter or weight.numel() < LARGE:
            return weight
        if weight.is_inference() or not weight.is_contiguous():
            return weight
        version = adapters.version(weight)
        known, when, copy = self.copies.get(id(weight), (None, 0, None))
        if known is not weight or when != version:
            self.copies[id(weight)] = weight, version, None
            return weight
        if copy is None:
            copy = adapters.onednn_order(weight, x.numel() // x.shape[-1])
            self.copies[id(weight)] = weight, version, copy
        return copy


def call(module: nn.Module, x: Tensor) -> Tensor:
    """A linear layer, by :func:`linear` where it is nothing but that."""
    own = "forward" in vars(module) or adapters.has_hooks(module)
    if type(module) is nn.Linear and not own:
        return linear(x, module.weight, module.bias)
    return module(x)  # type: ignore[no-any-return]  # of a module


class LinearFunction(torch.autograd.Function):
    """``x W^T + b``, forward and backward by oneDNN: ``(n i), (o i), (o) -> (n o)``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        return by_onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_backward(F.linear, (x, weight, bias), grad)
        to_x, to_weight, to_bias = ctx.needs_input_grad
        return (
            linear(grad, weight.T) if to_x else None,
            linear(grad.T, x.T) if to_weight else None,
            grad.sum(0) if to_bias else None,
        )
