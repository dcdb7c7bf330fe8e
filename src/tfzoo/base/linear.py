"""Linear maps: with Glorot initialisation, computed in the dtype of their input, or one for each
expert.

PyTorch computes products in fp32 by MKL, which on AMD's processors of family 26 reaches half of
what oneDNN does, which PyTorch has built in and uses for other dtypes; on those of family 25,
oneDNN gains for the few rows of a decoder's step alone. ``benchmarks/products.py`` and
``benchmarks/beside_marian.py`` measure it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base import adapters
from tfzoo.base.kernels import custom_functions_apply, differentiable_backward

WIDE = 26
"""The family of AMD's processors from which on oneDNN is the faster one in training too."""

COPIED = 2**28
"""The most numbers of weights that a search copies: 1 GiB in fp32."""
NARROW = 128
"""The width up to which :func:`projections` makes one product of several."""


class Linear(nn.Linear):
    """``x W^T + b``; ``W`` is initialised as in Glorot and Bengio 2010, eq. 16, ``b`` as 0."""

    __call__: Callable[..., Tensor]  # what torch leaves open

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class CastLinear(nn.Linear):
    """``x W^T + b`` in the dtype of ``x``, such as a router in fp32 in a model of bf16.

    >>> import torch
    >>> CastLinear(2, 3).bfloat16()(torch.randn(4, 2)).dtype
    torch.float32
    """

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


class Experts(nn.Module):
    """Linear maps, ``weight`` ``(experts, out, in)``, ``bias`` ``(experts, out)`` or None.

    Each one starts uniform by Glorot's rule, as ``blocks`` matrices of ``out / blocks`` rows.
    """

    def __init__(
        self, experts: int, inputs: int, outputs: int, blocks: int = 1, bias: bool = False
    ) -> None:
        super().__init__()
        self.blocks = blocks
        self.weight = nn.Parameter(torch.empty(experts, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(experts, outputs)) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        _, outputs, inputs = self.weight.shape
        bound = 3**0.5 * (2 / (inputs + outputs // self.blocks)) ** 0.5  # as xavier_uniform_
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, parts: Iterable[Tensor]) -> list[Tensor]:
        """One input for each expert, ``(n_e in) -> (n_e out)``. An expert without tokens has a
        gradient, of zeros: processes of one training must have the same gradients.
        """
        weights = self.weight.unbind()
        biases = [None] * len(weights) if self.bias is None else self.bias.unbind()
        return [F.linear(*one) for one in zip(parts, weights, biases, strict=True)]


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, training: bool | None = None
) -> Tensor:
    """``x W^T + b``, by oneDNN where that is the faster way, in fp32 on a CPU, and by ``F.linear``
    anywhere else: ``(* i), (o i), (o) -> (* o)``.
    """
    if not goes_by_onednn(x, weight, bias, training):
        return F.linear(x, weight, bias)
    if not torch.is_grad_enabled():
        if type(weight) is nn.Parameter and x.shape[:-1].numel() > 1:
            weight = packed(weight)
        return adapters.onednn_linear(x, weight, bias)  # type: ignore[no-any-return]
    # In rows: what a custom function returns must be no view of something it made.
    rows: Tensor = LinearFunction.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    return rows.view(*x.shape[:-1], weight.shape[0])


def projections(x: Tensor, maps: Sequence[nn.Module]) -> Sequence[Tensor]:
    """What each map gives for ``x``: of narrow ones in training on a CPU, where a call takes longer
    than its numbers, by one product of all.
    """
    if (
        not x.is_cpu
        or x.shape[-1] > NARROW
        or torch.compiler.is_compiling()
        or not torch.is_grad_enabled()
        or any(type(one) is not Linear or adapters.has_hooks(one) for one in maps)
    ):
        return [one(x) for one in maps]
    weights, biases = zip(*((one.weight, one.bias) for one in maps), strict=True)
    bias = None if biases[0] is None else torch.cat(biases)
    joint = linear(x, torch.cat(weights), bias)
    return joint.split_with_sizes([one.shape[0] for one in weights], -1)


PACKED: ContextVar[dict[Tensor, Tensor] | None] = ContextVar("packed", default=None)
"""The copies of weights inside :func:`constant_weights`; None elsewhere."""


@contextmanager
def constant_weights() -> Iterator[None]:
    """Inside it parameters do not change: products of several rows, without gradients, have a copy
    of each in oneDNN's own order, up to :data:`COPIED` numbers in all.
    """
    token = PACKED.set({})
    try:
        yield
    finally:
        PACKED.reset(token)


def packed(weight: Tensor) -> Tensor:
    """The copy of a weight inside :func:`constant_weights`; elsewhere the weight itself."""
    copies = PACKED.get()
    if copies is None:
        return weight
    if weight not in copies and sum(map(Tensor.numel, (weight, *copies))) <= COPIED:
        copies[weight] = adapters.in_onednn_order(weight)
    return copies.get(weight, weight)


def goes_by_onednn(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, training: bool | None = None
) -> bool:
    """Whether oneDNN is to compute :func:`linear`."""
    if torch.compiler.is_compiling():  # a graph is for any number of rows
        return False
    training = torch.is_grad_enabled() if training is None else training
    return (
        x.numel() * weight.shape[0] >= smallest(training)
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and (bias is None or bias.dtype == torch.float32)
        and all(type(one) in (Tensor, nn.Parameter) for one in (x, weight))
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
        and custom_functions_apply()
    )


@cache
def smallest(training: bool) -> float:
    """The multiplications from which a product pays for the code that oneDNN makes, and keeps, for
    its sizes: those of training are often new, those of a decoder's steps stay. Infinite where MKL
    is as fast, or oneDNN is not there.
    """
    try:
        said = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:  # no Linux
        return inf
    family = re.search(r"AuthenticAMD\s+cpu family\s*: (\d+)", said)
    there = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    if family is None or not there:
        return inf
    if training:
        return 2**27 if int(family[1]) >= WIDE else inf
    return 2**20


class LinearFunction(torch.autograd.Function):
    """``x W^T + b``, forward and backward by oneDNN: ``(n i), (o i), (o) -> (n o)``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        return adapters.onednn_linear(x, weight, bias)  # type: ignore[no-any-return]

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
