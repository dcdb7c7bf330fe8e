"""A linear map that is computed in the dtype of its input."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class CastLinear(nn.Linear):
    """``x W^T + b`` in the dtype of ``x``, whatever that of the parameters: a router, or a bias of
    scores, in fp32 in a model of bf16.

    >>> import torch
    >>> CastLinear(2, 3).bfloat16()(torch.randn(4, 2)).dtype
    torch.float32
    """

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)
