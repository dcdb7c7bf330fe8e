"""Between softmax and sparsemax."""

import torch
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import below_largest, ranks, visible_keys
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "entmax", paper="arXiv:1905.05702, section 3", traits={"sparse"})
class Entmax(Weighting):
    """1.5-entmax, between ``softmax`` and ``sparsemax``: ``max(0, s_j / 2 - tau)^2``, where ``tau``
    is such that they sum to one.

    Shapes: ``(b h q k) -> (b h q k)``. Options: none. Nothing is trained.

    Peters et al. 2019. Keys whose score is 2 or more below the largest have a weight of exactly 0;
    the others have gradients that vanish smoothly towards it. Sorting costs ``k log k`` per query.

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "entmax")(torch.tensor([[[[1.0, 0.0, -2.0]]]]), tfzoo.Mask())
    tensor([[[[0.8307, 0.1693, 0.0000]]]])
    """

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        if not scores.shape[-1]:  # no key is in the support
            return scores
        visible = visible_keys(scores, mask)
        scores = below_largest(scores, visible) / 2.0
        inside = support(scores.detach())
        size = inside.sum(-1, keepdim=True)
        mean = scores.masked_fill(~inside, 0.0).sum(-1, keepdim=True) / size
        spread = (scores - mean).square().masked_fill(~inside, 0.0).sum(-1, keepdim=True)
        tau = mean - ((1.0 - spread) / size).sqrt()
        return (scores - tau).relu().square().masked_fill(~visible, 0.0)


def support(scores: Tensor) -> Tensor:
    """True at the keys whose weight is over 0, ``(b h q k)``: the ``r`` largest scores, for the
    largest ``r`` at which the ``tau`` of these ``r`` alone does not exceed any of them.
    """
    ordered, r = scores.sort(-1, descending=True).values, ranks(scores)
    mean = ordered.cumsum(-1) / r
    variance = ordered.square().cumsum(-1) / r - mean.square()
    tau = mean - (1.0 / r - variance).clamp(min=0.0).sqrt()
    size = (tau <= ordered).sum(-1, keepdim=True).clamp(min=1)
    return torch.logical_not(scores < ordered.gather(-1, size - 1))
