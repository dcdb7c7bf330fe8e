"""Linear maps of the multi-head blocks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Linear):
    """``x W^T + b``; ``W`` starts as in Glorot and Bengio 2010, eq. 16, ``b`` at 0."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def fused_projection(x: Tensor, *linears: nn.Linear) -> tuple[Tensor, ...]:
    """``(linear(x) for linear in linears)`` as one matrix product.

    The projections stay parameters of their own, so that their names and initial values do not
    depend on whether they are fused.
    """
    if len(linears) == 1:
        return (linears[0](x),)
    weight = torch.cat([linear.weight for linear in linears])
    bias = torch.cat([linear.bias for linear in linears])
    return torch.split(
        F.linear(x, weight, bias), [linear.out_features for linear in linears], dim=-1
    )
