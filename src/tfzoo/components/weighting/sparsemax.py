"""The nearest probabilities, many of them exactly 0."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import below_largest, count, ranks, visible_keys
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask, largest


@register("weighting", "sparsemax", paper="arXiv:1602.02068, section 2", traits={"sparse"})
class Sparsemax(Weighting):
    """The probabilities nearest to the scores: ``max(0, s_j - tau)``, where ``tau`` is such that
    they sum to one.

    Shapes: ``(b h q k) -> (b h q k)``. Options: none. Nothing is trained.

    Martins and Astudillo 2016: the Euclidean projection of the scores onto the simplex. Keys whose
    score is 1 or more below the largest have a weight of exactly 0. With scores in descending
    order, ``tau`` is the largest of ``(s_1 + ... + s_r - 1) / r``; sorting costs ``k log k`` per
    query.

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "sparsemax")(torch.tensor([[[[1.0, 0.5, -1.0]]]]), tfzoo.Mask())
    tensor([[[[0.7500, 0.2500, 0.0000]]]])
    """

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        visible = visible_keys(scores, mask)
        scores = below_largest(scores, visible)
        outside = scores <= threshold(scores.detach())
        tau = scores.masked_fill(outside, 0.0).sum(-1, keepdim=True) - 1.0
        tau = tau / count(~outside)
        return (scores - tau).masked_fill(outside | ~visible, 0.0)


def threshold(scores: Tensor) -> Tensor:
    """``tau``, the score from which on a weight is over 0: ``(b h q k) -> (b h q 1)``."""
    sums = scores.sort(-1, descending=True).values.cumsum(-1)
    return largest((sums - 1.0) / ranks(scores))
