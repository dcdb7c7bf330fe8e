"""The precision of statistics, softmax, angles and sums: fp32 at least."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import reduce

import torch
from torch import Tensor


def compute_dtype(*tensors: Tensor) -> torch.dtype:
    """The widest dtype of these tensors, fp32 at least.

    >>> compute_dtype(torch.zeros(1, dtype=torch.bfloat16))
    torch.float32
    >>> compute_dtype(torch.zeros(1, dtype=torch.float64), torch.zeros(1))
    torch.float64
    """
    dtypes = {x.dtype for x in tensors}
    if dtypes <= {torch.float32}:
        return torch.float32
    return reduce(torch.promote_types, dtypes, torch.float32)


def at_least_fp32(x: Tensor) -> Tensor:
    """bf16 and fp16 become fp32; fp32 and float64 stay."""
    return x if x.dtype == torch.float32 else x.to(compute_dtype(x))


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Products in the dtypes that they are given. PyTorch has no autocast for ``meta``."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)
