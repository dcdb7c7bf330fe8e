"""The Transformer's own feed-forward layer."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.contracts import FeedForward
from tfzoo.dropout import dropout as drop
from tfzoo.registry import register
from tfzoo.values import check_range


@register("feedforward", "relu", paper="arXiv:1706.03762, eq. 2")
class ReLU(FeedForward):
    """Two layers with a rectifier between: ``max(0, x W + b) V + c``.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    Vaswani et al. 2017, section 3.3. Matrices start uniform by Glorot's rule, biases at zero, as in
    their code.

    Options:
        hidden: width ``f`` of the hidden layer; None is ``4 d``.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import torch
    >>> from tfzoo.registry import create
    >>> create("feedforward", {"name": "relu", "hidden": 16}, dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, dim: int, *, hidden: int | None = None) -> None:
        super().__init__()
        check_range("feedforward 'relu': hidden", hidden, ge=1, whole=True, optional=True)
        self.inner = nn.Linear(dim, hidden or 4 * dim)
        self.outer = nn.Linear(hidden or 4 * dim, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        return self.outer(drop(F.relu(self.inner(x), inplace=True), dropout))  # type: ignore[no-any-return]
