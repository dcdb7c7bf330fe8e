"""A gate that is nearly a rectifier."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.contracts import FeedForward
from tfzoo.dropout import dropout as drop
from tfzoo.registry import register
from tfzoo.values import check_range


@register("feedforward", "swiglu", paper="arXiv:2002.05202, eq. 6")
class SwiGLU(FeedForward):
    """A gated layer: ``(silu(x W) * x V) U``, ``silu(z) = z sigmoid(z)``, no biases.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    Shazeer 2020, eq. 6. Each matrix starts uniform by Glorot's rule.

    Options:
        hidden: width of the hidden layer of an ungated network with as many parameters; None is
            ``4 d``. ``f`` is two thirds of it, rounded.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import torch
    >>> from tfzoo.registry import create
    >>> create("feedforward", {"name": "swiglu", "hidden": 12}, dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, dim: int, *, hidden: int | None = None) -> None:
        super().__init__()
        check_range("feedforward 'swiglu': hidden", hidden, ge=1, whole=True, optional=True)
        width = max(1, round((hidden or 4 * dim) * 2 / 3))
        self.inner = nn.Linear(dim, 2 * width, bias=False)  # gate and value in one product
        self.outer = nn.Linear(width, dim, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (*self.inner.weight.chunk(2), self.outer.weight):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        gate, value = self.inner(x).chunk(2, -1)
        return self.outer(drop(F.silu(gate) * value, dropout))  # type: ignore[no-any-return]
