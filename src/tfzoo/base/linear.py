"""Linear maps: with Glorot initialisation, or computed in the dtype of their input."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base import products


class Linear(nn.Linear):
    """``x W^T + b``; ``W`` is initialised as in Glorot and Bengio 2010, eq. 16, ``b`` as 0."""

    __call__: Callable[..., Tensor]  # what torch leaves open

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return products.linear(x, self.weight, self.bias)


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
