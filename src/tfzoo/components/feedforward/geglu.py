"""A gate with a smooth rectifier."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.feedforward._layers import Gated


@register("feedforward", "geglu", paper="arXiv:2002.05202, eq. 5 and 6")
class GEGLU(Gated):
    """A gated layer: ``(gelu(x W) * x V) U``, ``gelu(z) = z Phi(z)``.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    Shazeer 2020, eq. 6. Each matrix starts uniform by Glorot's rule, biases at zero.

    Options:
        hidden: width ``f`` of the hidden layer; None is two thirds of ``4 d``, rounded, with
            which the layer has as many parameters as an ungated one of width ``4 d``.
        bias: whether the three maps have biases.
        approximate: ``tanh``: ``gelu(z) = z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2``, as
            in T5 v1.1 and Gemma.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import tfzoo, torch
    >>> tfzoo.create("feedforward", "geglu", dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        *,
        hidden: int | None = None,
        bias: bool = False,
        approximate: Literal["none", "tanh"] = "none",
    ) -> None:
        super().__init__(dim, hidden=hidden, bias=bias)
        self.approximate = approximate

    def activation(self, z: Tensor) -> Tensor:
        return F.gelu(z, approximate=self.approximate)
