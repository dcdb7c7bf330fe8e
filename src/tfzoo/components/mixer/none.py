"""No mixing: tokens do not see one another."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer


@register("mixer", "none", traits={"identity", "reach"})
class NoMixer(Mixer):
    """Identity: ``x``; a layer then has no such sublayer, and tokens do not see one another.

    Shapes: ``(b n d) -> (b n d)``. Options: none.

    >>> import tfzoo, torch
    >>> tfzoo.Encoder(8, 2, 1, mixer="none")(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        return x
