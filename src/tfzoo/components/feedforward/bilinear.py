"""A product of two linear maps."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.feedforward._layers import Gated


@register("feedforward", "bilinear", paper="arXiv:2002.05202, eq. 4 and 6")
class Bilinear(Gated):
    """A gated layer whose gate is linear: ``(x W * x V) U``.

    Shapes: ``(b n d) -> (b n d)``; dropout acts on the hidden layer ``(b n f)``.

    Shazeer 2020, eq. 6. Each matrix starts uniform by Glorot's rule, biases at zero.

    Options:
        hidden: width ``f`` of the hidden layer; None is two thirds of ``4 d``, rounded, with
            which the layer has as many parameters as an ungated one of width ``4 d``.
        bias: whether the three maps have biases.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import tfzoo, torch
    >>> tfzoo.create("feedforward", "bilinear", dim=8)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def activation(self, z: Tensor) -> Tensor:
        return z
