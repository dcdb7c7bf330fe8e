"""Dropout. On a CPU, drawing random numbers takes most of the time, so four are drawn at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.custom_autograd import custom_functions_apply

STEPS = 2**16
GATHER = 0x0102040810204080
"""The factor that brings the lowest bits of eight bytes into the highest byte of their product."""
SPREAD = 0x0101010101010101
"""The factor that repeats a byte eight times."""
EACH = 0x8040201008040201 - 2**64
"""One bit of each of eight bytes, another one in each."""


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each entry with probability ``p`` and scale the rest by ``1 / (1 - p)`` (Srivastava et
    al. 2014, section 10).

    ``p`` is the probability in force: 0 outside training. On a CPU it is rounded to a multiple of
    2**-16.

    >>> dropout(torch.ones(2), 0.0)
    tensor([1., 1.])
    """
    if p == 0.0:
        return x
    steps = round(p * STEPS)
    if x.device.type != "cpu" or not 0 < steps < STEPS or not custom_functions_apply(x):
        return F.dropout(x, p)
    return DropoutFunction.apply(x, steps)  # type: ignore[no-any-return,no-untyped-call]


def draw(x: Tensor, steps: int) -> Tensor:
    """Ones and zeros (``int8``) in the shape of ``x``: zero with probability ``steps / 2**16``.

    64 random bits are read as four 16-bit numbers, one per entry. The comparison writes int16 in
    place because PyTorch vectorises that, and not a comparison that returns bool.
    """
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    numbers = bits.view(torch.int16)[: x.numel()].view(x.shape)
    return numbers.ge_(steps - STEPS // 2).to(torch.int8)


class DropoutFunction(torch.autograd.Function):
    """Dropout that keeps its mask in one bit per entry."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: int) -> Tensor:
        kept = draw(x, steps)
        ctx.save_for_backward(to_bits(kept))
        ctx.scale = STEPS / (STEPS - steps)
        return apply(x, kept, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return apply(grad, from_bits(ctx.saved_tensors[0], grad.shape), ctx.scale), None


def apply(x: Tensor, kept: Tensor, scale: float) -> Tensor:
    """``x * kept * scale``. Converting the mask first is faster than a product of mixed dtypes."""
    return kept.to(x.dtype).mul_(x).mul_(scale)


def to_bits(kept: Tensor) -> Tensor:
    """Ones and zeros (``int8``), eight in a byte, by arithmetic on eight at once."""
    flat = F.pad(kept.flatten(), (0, -kept.numel() % 8))
    return (flat.view(torch.int64) * GATHER).bitwise_right_shift_(56).to(torch.uint8)


def from_bits(bits: Tensor, shape: torch.Size) -> Tensor:
    """The inverse of :func:`to_bits`: ones and zeros, ``uint8``, in this shape."""
    each = (bits.to(torch.int64) * SPREAD).bitwise_and_(EACH).view(torch.uint8)
    return each.clamp_(max=1)[: shape.numel()].view(shape)
