"""The poolers of BERT and DistilBERT."""

from typing import Literal

from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.linear import CastLinear
from tfzoo.base.registry import register
from tfzoo.components.pooling.first import First
from tfzoo.contracts import Pooling


@register(
    "pooling", "pooler", paper="arXiv:1810.04805, section 3; its code", traits={"reads_first"}
)
class Pooler(Pooling):
    """A layer on the first real token (BERT): ``tanh(W x_1 + b)``.

    Shapes: ``(b n d), (b n) -> (b d)``; padding may stand on either side. A sequence of no token
    gives zeros. ``W`` starts uniform by Glorot's rule, ``b`` at zero.

    Options:
        activation: ``tanh`` (BERT, RoBERTa), or ``relu`` in its place (DistilBERT).

    >>> import tfzoo, torch
    >>> tfzoo.create("pooling", "pooler", dim=8)(torch.randn(3, 7, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(self, dim: int, *, activation: Literal["tanh", "relu"] = "tanh") -> None:
        super().__init__()
        self.first = First()
        self.linear = CastLinear(dim, dim)
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        dtype = compute_dtype(x, self.linear.weight)
        pooled: Tensor = self.linear(self.first(x, valid).to(dtype))
        return (pooled.tanh() if self.activation == "tanh" else pooled.relu()).to(x.dtype)

    def token_index(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        return self.first.token_index(x, valid)
