"""Linear maps: with Glorot initialisation, computed in the dtype of their input, or one for each
expert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
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
