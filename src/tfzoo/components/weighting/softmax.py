"""The Transformer's own weights."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "softmax", paper="arXiv:1706.03762, eq. 1", traits={"softmax"})
class Softmax(Weighting):
    """Exponentials that sum to one: ``exp(s_j) / sum_k exp(s_k)`` over the keys that a query may
    look at.

    Shapes: ``(b h q k) -> (b h q k)``. Options: none. Nothing is trained. Attention computes it
    with PyTorch's fused kernels where they are faster.

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "softmax")(torch.zeros(1, 1, 1, 4), tfzoo.Mask())
    tensor([[[[0.2500, 0.2500, 0.2500, 0.2500]]]])
    """

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        return mask.softmax(scores)
