"""The sum of a sequence's tokens."""

import torch
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Pooling


@register("pooling", "sum", paper="arXiv:1703.06114, theorem 2", traits={"averages"})
class Sum(Pooling):
    """The sum of the real tokens: ``sum_i x_i``.

    Shapes: ``(b n d), (b n) -> (b d)``. Summed in fp32 or better. A sequence of no token gives
    zeros. Options: none.

    >>> import tfzoo, torch
    >>> x, valid = torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])
    >>> tfzoo.create("pooling", "sum")(x, valid)
    tensor([[4.]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        real = x if valid is None else x.masked_fill(~valid[..., None], 0.0)
        return real.sum(1, dtype=torch.promote_types(x.dtype, torch.float32)).to(x.dtype)
