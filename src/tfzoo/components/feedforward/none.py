"""No feed-forward sublayer."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import FeedForward


@register("feedforward", "none", traits={"identity"})
class NoFeedForward(FeedForward):
    """Identity: ``x``; a layer then has no feed-forward sublayer.

    Shapes: ``(b n d) -> (b n d)``. Options: none.

    >>> import tfzoo, torch
    >>> tfzoo.create("feedforward", "none")(torch.tensor([[[3.0, 4.0]]]))
    tensor([[[3., 4.]]])
    """

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        return x
