"""A smooth rectifier."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.feedforward._layers import Plain


@register("feedforward", "gelu", paper="arXiv:1606.08415, section 2")
class GELU(Plain):
    """Two layers with a smooth rectifier between: ``gelu(x W + b) V + c``, ``gelu(z) = z Phi(z)``.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    Hendrycks and Gimpel 2016, section 2: ``Phi`` is the distribution function of the normal
    distribution. Matrices start uniform by Glorot's rule, biases at zero.

    Options:
        hidden: width ``f`` of the hidden layer; None is ``4 d``.
        bias: whether ``b`` and ``c`` are there.
        approximate: ``tanh``: ``gelu(z) = z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2``, as
            in GPT-2.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import tfzoo, torch
    >>> tfzoo.create("feedforward", "gelu", dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        *,
        hidden: int | None = None,
        bias: bool = True,
        approximate: Literal["none", "tanh"] = "none",
    ) -> None:
        super().__init__(dim, hidden=hidden, bias=bias)
        self.approximate = approximate

    def activation(self, z: Tensor) -> Tensor:
        return F.gelu(z, approximate=self.approximate)
