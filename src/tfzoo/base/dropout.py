"""Dropout. On a CPU, drawing random numbers takes most of the time, so four are drawn at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.custom_autograd import custom_functions_apply

STEPS = 2**16
LARGE = 2**13
"""Entries from which that pays: of fewer, a call of each operator takes longer than its numbers."""


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each entry with probability ``p`` and scale the rest by ``1 / (1 - p)`` (Srivastava et
    al. 2014, section 10).

    ``p`` is the probability in force: 0 outside training. On a CPU it is rounded to a multiple of
    2**-16 for large tensors.

    >>> dropout(torch.ones(2), 0.0)
    tensor([1., 1.])
    """
    if p == 0.0:
        return x
    steps = round(p * STEPS)
    if (
        x.device.type != "cpu"
        or not 0 < steps < STEPS
        or not custom_functions_apply(x)  # before: a graph is for any number of entries
        or x.numel() < LARGE
    ):
        return F.dropout(x, p)
    return DropoutFunction.apply(x, steps)  # type: ignore[no-any-return,no-untyped-call]


class DropoutFunction(torch.autograd.Function):
    """Dropout that keeps its mask in one byte per entry.

    64 random bits are read as four 16-bit numbers, one per entry. The comparison writes int16 in
    place because PyTorch vectorises that, and not a comparison that returns bool.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: int) -> Tensor:
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        numbers = bits.view(torch.int16)[: x.numel()].view(x.shape)
        kept = numbers.ge_(steps - STEPS // 2).to(torch.int8)
        ctx.save_for_backward(kept)
        ctx.scale = STEPS / (STEPS - steps)
        return apply(x, kept, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return apply(grad, ctx.saved_tensors[0], ctx.scale), None


def apply(x: Tensor, kept: Tensor, scale: float) -> Tensor:
    """``x * kept * scale``. Converting the mask first is faster than a product of mixed dtypes."""
    return kept.to(x.dtype).mul_(x).mul_(scale)
