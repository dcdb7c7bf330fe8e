"""The square of a rectifier."""

import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.feedforward._layers import Plain


@register("feedforward", "relu_squared", paper="arXiv:2109.08668, section 3")
class ReLUSquared(Plain):
    """Two layers with a squared rectifier between: ``max(0, x W + b)^2 V + c``.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    So et al. 2021 (Primer), section 3. Matrices start uniform by Glorot's rule, biases at zero.

    Options:
        hidden: width ``f`` of the hidden layer; None is ``4 d``.
        bias: whether ``b`` and ``c`` are there.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import tfzoo, torch
    >>> tfzoo.create("feedforward", "relu_squared", dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def activation(self, z: Tensor) -> Tensor:
        return F.relu(z).square()
