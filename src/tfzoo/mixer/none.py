"""No mixing: tokens do not see one another."""

from __future__ import annotations

from torch import Tensor

from tfzoo.blocks.context import Context
from tfzoo.blocks.mixer import Mixer
from tfzoo.registry import register


@register("mixer", "none", traits={"identity", "reach"})
class NoMixer(Mixer):
    """Identity: ``x``; a layer then has no such sublayer, and tokens do not see one another.

    Shapes: ``(b n d) -> (b n d)``. Options: none.

    >>> import torch
    >>> from tfzoo.blocks.encoder import Encoder
    >>> Encoder(8, 2, 1, mixer="none")(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        return x
