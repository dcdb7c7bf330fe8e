"""Softmax that may give less than one in all."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import softmax_with_sink
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "softmax_plus_one", paper="arXiv:2309.17453, eq. 2")
class SoftmaxPlusOne(Weighting):
    """Softmax with 1 added to the denominator: ``exp(s_j) / (1 + sum_k exp(s_k))``.

    Shapes: ``(b h q k) -> (b h q k)``. Options: none. Nothing is trained.

    Miller 2023 ("Attention is off by one"): weights sum to less than one, so that a head may
    attend to nothing. As ``softmax`` over one more key of score 0 and value 0.

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "softmax_plus_one")(torch.zeros(1, 1, 1, 3), tfzoo.Mask())
    tensor([[[[0.2500, 0.2500, 0.2500]]]])
    """

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        return softmax_with_sink(scores, mask, scores.new_zeros(1, 1, 1))
