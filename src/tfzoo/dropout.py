"""Dropout, with random numbers drawn four at a time on a CPU, where drawing them is what takes the time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each entry with probability ``p`` and scale the rest by ``1 / (1 - p)`` (Srivastava et al. 2014, section 4).

    ``p`` is the probability in force: 0 outside training. On a CPU it is rounded to a multiple of 2**-16.
    """
    if p == 0.0:
        return x
    return F.dropout(x, p)
