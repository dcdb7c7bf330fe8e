"""A feed-forward layer with a sine."""

import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo import register
from tfzoo.contracts import FeedForward


@register("feedforward", "sine")
class Sine(FeedForward):
    """Two layers with a sine between: ``sin(x W + b) V + c``."""

    def __init__(self, dim: int, *, bias: bool = True) -> None:
        super().__init__()
        self.inner = nn.Linear(dim, 4 * dim, bias=bias)
        self.outer = nn.Linear(4 * dim, dim, bias=bias)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        """``(b n d) -> (b n d)``"""
        return self.outer(F.dropout(self.inner(x).sin(), dropout))
