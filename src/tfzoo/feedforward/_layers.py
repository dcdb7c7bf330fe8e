"""What the layers of this kind have in common: two linear maps, and a function between them."""

from __future__ import annotations

from torch import Tensor, nn

from tfzoo.base.dropout import dropout as drop
from tfzoo.base.products import call
from tfzoo.base.values import check_range
from tfzoo.contracts import FeedForward


class Plain(FeedForward):
    """``act(x W + b) V + c``; a subclass writes :meth:`activation`.

    Matrices start uniform by Glorot's rule, biases at zero.
    """

    def __init__(self, dim: int, *, hidden: int | None = None, bias: bool = True) -> None:
        super().__init__()
        check_range(
            f"feedforward {self.entry.name!r}: hidden", hidden, ge=1, whole=True, optional=True
        )
        width = hidden or self.usual_width(dim)
        self.inner = nn.Linear(dim, width, bias=bias)
        self.outer = nn.Linear(width, dim, bias=bias)
        self.reset_parameters()

    @staticmethod
    def usual_width(dim: int) -> int:
        """The width without ``hidden``: ``4 d`` (Vaswani et al. 2017, section 3.3)."""
        return 4 * dim

    def reset_parameters(self) -> None:
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def activation(self, z: Tensor) -> Tensor:
        """Elementwise."""
        raise NotImplementedError

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        return call(self.outer, drop(self.activation(call(self.inner, x)), dropout))


class Gated(FeedForward):
    """``(act(x W) * x V) U``; a subclass writes :meth:`activation`.

    Matrices start uniform by Glorot's rule, biases at zero.
    """

    def __init__(self, dim: int, *, hidden: int | None = None, bias: bool = False) -> None:
        super().__init__()
        check_range(
            f"feedforward {self.entry.name!r}: hidden", hidden, ge=1, whole=True, optional=True
        )
        width = hidden or self.usual_width(dim)
        self.inner = nn.Linear(dim, 2 * width, bias=bias)  # gate and value in one product
        self.outer = nn.Linear(width, dim, bias=bias)
        self.reset_parameters()

    @staticmethod
    def usual_width(dim: int) -> int:
        """The width without ``hidden``, with which a gated layer has as many parameters as a plain
        one of width ``4 d``: two thirds of that, rounded (Shazeer 2020, section 3).
        """
        return round(4 * dim * 2 / 3)

    def reset_parameters(self) -> None:
        for weight in (*self.inner.weight.chunk(2), self.outer.weight):
            nn.init.xavier_uniform_(weight)
        for layer in (self.inner, self.outer):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def activation(self, z: Tensor) -> Tensor:
        """Elementwise, on the gate."""
        raise NotImplementedError

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        return call(self.outer, drop(self.gated(call(self.inner, x)), dropout))

    def gated(self, z: Tensor) -> Tensor:
        """``(b n 2f) -> (b n f)``: the activation of the gate times the value."""
        gate, value = z.chunk(2, -1)
        return self.activation(gate) * value
