"""A smooth rectifier."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.contracts import FeedForward
from tfzoo.dropout import dropout as drop
from tfzoo.registry import register
from tfzoo.values import check_range


@register("feedforward", "gelu", paper="arXiv:1606.08415, section 2")
class GELU(FeedForward):
    """Two layers with a smooth rectifier between: ``gelu(x W + b) V + c``, ``gelu(z) = z Phi(z)``.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    Hendrycks and Gimpel 2016, section 2: ``Phi`` is the distribution function of the normal
    distribution, without approximation. Matrices start uniform by Glorot's rule, biases at zero.

    Options:
        hidden: width ``f`` of the hidden layer; None is ``4 d``.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import torch
    >>> from tfzoo.registry import create
    >>> create("feedforward", {"name": "gelu", "hidden": 16}, dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, dim: int, *, hidden: int | None = None) -> None:
        super().__init__()
        check_range("feedforward 'gelu': hidden", hidden, ge=1, whole=True, optional=True)
        self.inner = nn.Linear(dim, hidden or 4 * dim)
        self.outer = nn.Linear(hidden or 4 * dim, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        return self.outer(drop(F.gelu(self.inner(x)), dropout))  # type: ignore[no-any-return]
