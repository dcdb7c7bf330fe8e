"""No norm."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Norm


@register("norm", "none")
class NoNorm(Norm):
    """Identity: ``x``.

    Shapes: ``(b n d) -> (b n d)``. Options: none.

    >>> import tfzoo, torch
    >>> tfzoo.create("norm", "none")(torch.tensor([[[3.0, 4.0]]]))
    tensor([[[3., 4.]]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        return x
