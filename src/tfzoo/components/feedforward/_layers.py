"""What the layers of this kind have in common: two linear maps, and a function between them."""

from torch import Tensor, nn

from tfzoo.base.functional import dropout as drop
from tfzoo.base.linear import Linear
from tfzoo.base.values import check_range
from tfzoo.contracts import FeedForward


class Plain(FeedForward):
    """``act(x W + b) V + c``; a subclass writes ``act``, elementwise, as :meth:`activation`.

    Matrices start uniform by Glorot's rule, biases at zero.
    """

    maps = 1
    """Matrices of one width in the first product."""

    def __init__(self, dim: int, *, hidden: int | None = None, bias: bool = True) -> None:
        super().__init__()
        where = f"feedforward {self.entry.name!r}: hidden"
        check_range(where, hidden, ge=1, whole=True, optional=True)
        width = hidden or self.usual_width(dim)
        self.inner = Linear(dim, self.maps * width, bias=bias)
        self.outer = Linear(width, dim, bias=bias)
        self.reset_parameters()

    @staticmethod
    def usual_width(dim: int) -> int:
        """The width without ``hidden``: ``4 d`` (Vaswani et al. 2017, section 3.3)."""
        return 4 * dim

    def reset_parameters(self) -> None:
        """Biases initialise themselves."""
        for weight in (*self.inner.weight.chunk(self.maps), self.outer.weight):
            nn.init.xavier_uniform_(weight)

    def activation(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def between(self, z: Tensor) -> Tensor:
        """The hidden layer from the first product: ``(b n f) -> (b n f)``."""
        return self.activation(z)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        return self.outer(drop(self.between(self.inner(x)), dropout))


class Gated(Plain):
    """``(act(x W) * x V) U``; a subclass writes ``act``, of the gate, as :meth:`activation`."""

    maps = 2

    def __init__(self, dim: int, *, hidden: int | None = None, bias: bool = False) -> None:
        super().__init__(dim, hidden=hidden, bias=bias)

    @staticmethod
    def usual_width(dim: int) -> int:
        """The width without ``hidden``, with which a gated layer has as many parameters as a plain
        one of width ``4 d``: two thirds of that, rounded (Shazeer 2020, section 3).
        """
        return round(4 * dim * 2 / 3)

    def between(self, z: Tensor) -> Tensor:
        """The activation of the gate times the value: ``(b n 2f) -> (b n f)``."""
        gate, value = z.chunk(2, -1)
        return self.activation(gate) * value
