"""A norm by the mean absolute value."""

import torch
from torch import Tensor, nn

from tfzoo import register
from tfzoo.contracts import Norm


@register("norm", "mean_absolute")
class MeanAbsolute(Norm):
    """Divide each token by its mean absolute value: ``x / (mean(|x|) + 1e-6) * weight``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """``(b n d), (b n) -> (b n d)``"""
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        y = y / (y.abs().mean(-1, keepdim=True) + 1e-6) * self.weight
        return y.to(x.dtype)
