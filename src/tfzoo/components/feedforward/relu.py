"""The Transformer's own feed-forward layer."""

import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.feedforward._layers import Plain


@register("feedforward", "relu", paper="arXiv:1706.03762, eq. 2")
class ReLU(Plain):
    """Two layers with a rectifier between: ``max(0, x W + b) V + c``.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    Vaswani et al. 2017, section 3.3. Matrices start uniform by Glorot's rule, biases at zero, as in
    their code. T5 has no biases.

    Options:
        hidden: width ``f`` of the hidden layer; None is ``4 d``.
        bias: whether ``b`` and ``c`` are there.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import tfzoo, torch
    >>> tfzoo.create("feedforward", "relu", dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def activation(self, z: Tensor) -> Tensor:
        return F.relu(z)
