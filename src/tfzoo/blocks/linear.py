"""The projection that blocks are made of."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Linear):
    """``x W^T + b``, started uniformly with equal variance of outputs and gradients and no bias
    (Glorot and Bengio 2010, eq. 16).
    """

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def fused_projection(x: Tensor, *linears: nn.Linear) -> tuple[Tensor, ...]:
    """What each projection makes of ``x``, in one matrix product: they stay separate parameters,
    each with its own name and start.
    """
    if len(linears) == 1:
        return (linears[0](x),)
    weight = torch.cat([linear.weight for linear in linears])
    bias = torch.cat([linear.bias for linear in linears])
    return torch.split(
        F.linear(x, weight, bias), [linear.out_features for linear in linears], dim=-1
    )
