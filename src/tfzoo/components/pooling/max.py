"""The maximum of each channel."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Pooling


@register("pooling", "max", paper="arXiv:1408.5882, section 2")
class Max(Pooling):
    """The maximum of each channel over the real tokens: ``max_i x_i``.

    Shapes: ``(b n d), (b n) -> (b d)``. A sequence of no token gives zeros. Options: none.

    >>> import tfzoo, torch
    >>> x, valid = torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])
    >>> tfzoo.create("pooling", "max")(x, valid)
    tensor([[3.]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        real = x if valid is None else x.masked_fill(~valid[..., None], float("-inf"))
        return real.amax(1)
