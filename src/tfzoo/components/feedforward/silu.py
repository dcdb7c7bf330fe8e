"""A rectifier with a sigmoid as gate."""

import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.feedforward._layers import Plain


@register("feedforward", "silu", paper="arXiv:2002.05202, eq. 3")
class SiLU(Plain):
    """Two layers with a sigmoid-weighted unit between: ``silu(x W + b) V + c``, ``silu(z) = z
    sigmoid(z)``.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    Shazeer 2020, eq. 3, where it is called Swish; the unit is that of Elfwing et al. 2017
    (arXiv:1702.03118). Matrices start uniform by Glorot's rule, biases at zero.

    Options:
        hidden: width ``f`` of the hidden layer; None is ``4 d``.
        bias: whether ``b`` and ``c`` are there.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import tfzoo, torch
    >>> tfzoo.create("feedforward", "silu", dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def activation(self, z: Tensor) -> Tensor:
        return F.silu(z)
