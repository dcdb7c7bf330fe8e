"""Precision of statistics, softmax, angles and sums."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_fp32(x: Tensor) -> Tensor:
    """bf16 and fp16 become fp32; fp32 and fp64 stay.

    >>> at_least_fp32(torch.zeros(1, dtype=torch.bfloat16)).dtype
    torch.float32
    >>> at_least_fp32(torch.zeros(1, dtype=torch.float64)).dtype
    torch.float64
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))
