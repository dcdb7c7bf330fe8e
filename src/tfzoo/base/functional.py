"""Functions of tensors that parts share, beside those of ``torch.nn.functional``.

Statistics, softmax, angles and sums are computed in fp32 at least.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.kernels import custom_functions_apply

STEPS = 2**16
LARGE = 2**13
"""Entries from which drawing four numbers at once pays: of fewer, a call of each operator takes
longer than its numbers.
"""


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


def soft_cap(x: Tensor, cap: float | Tensor) -> Tensor:
    """``cap tanh(x / cap)``, which lies between ``-cap`` and ``cap`` (Gemma 2; Gemma Team 2024,
    arXiv:2408.00118, section 2).
    """
    return cap * (x / cap).tanh()


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each entry with probability ``p`` and scale the rest by ``1 / (1 - p)`` (Srivastava et
    al. 2014, section 10).

    ``p`` is the probability in force: 0 outside training. On a CPU, where drawing random numbers
    takes most of the time, large tensors draw four at once, of ``p`` rounded to a multiple of
    2**-16, and keep a byte of each entry.

    >>> dropout(torch.ones(2), 0.0)
    tensor([1., 1.])
    """
    if p == 0.0:
        return x
    steps = round(p * STEPS)
    if (
        x.device.type != "cpu"
        or not 0 < steps < STEPS
        or not custom_functions_apply()  # before: a graph is for any number of entries
        or x.numel() < LARGE
        or x.numel() % 4
    ):
        return F.dropout(x, p)
    bits = torch.empty(x.numel() // 4, dtype=torch.int64).random_(-(2**63), None)
    # In place, in int16: PyTorch vectorises that comparison, and not one that returns bool.
    kept = bits.view(torch.int16).view(x.shape).ge_(steps - STEPS // 2).to(torch.int8)
    return x * kept * (STEPS / (STEPS - steps))
