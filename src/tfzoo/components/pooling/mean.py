"""The mean of a sequence's tokens."""

import torch
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Pooling


@register("pooling", "mean", paper="arXiv:1607.01759, section 2", traits={"averages"})
class Mean(Pooling):
    """The mean of the real tokens: ``sum_i x_i / n``.

    Shapes: ``(b n d), (b n) -> (b d)``. Summed in fp32 or better. A sequence of no token
    gives zeros. Options: none.

    >>> import tfzoo, torch
    >>> x, valid = torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])
    >>> tfzoo.create("pooling", "mean")(x, valid)
    tensor([[2.]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        if valid is None:
            return x.mean(1, dtype=wide).to(x.dtype)
        total = x.masked_fill(~valid[..., None], 0.0).sum(1, dtype=wide)
        return (total / valid.sum(1, keepdim=True).clamp(min=1)).to(x.dtype)
