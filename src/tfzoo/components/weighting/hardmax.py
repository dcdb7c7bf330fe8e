"""The best key alone."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import visible_keys
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "hardmax", paper="arXiv:1308.3432", traits={"sparse", "surrogate_gradient"})
class Hardmax(Weighting):
    """All weight on the key with the largest score, ``1 if j = argmax_k s_k else 0``, the first of
    them where scores are equal.

    Shapes: ``(b h q k) -> (b h q k)``. Options: none. Nothing is trained.

    Its derivative is 0 nearly everywhere, so the gradient is that of ``softmax`` in its place
    (straight-through, Bengio et al. 2013).

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "hardmax")(torch.tensor([[[[0.0, 2.0, 2.0]]]]), tfzoo.Mask())
    tensor([[[[0., 1., 0.]]]])
    """

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        if not scores.shape[-1]:  # no key is the largest
            return scores
        visible = visible_keys(scores, mask)
        shown = scores.detach().masked_fill(~visible, float("-inf"))
        largest = shown.argmax(-1, keepdim=True)
        hard = shown.new_zeros(shown.shape).scatter(-1, largest, 1.0).masked_fill(~visible, 0.0)
        soft = Mask(allowed=visible).softmax(scores)
        return hard + (soft - soft.detach())
