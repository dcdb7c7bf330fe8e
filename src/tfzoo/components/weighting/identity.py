"""Scores as weights."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import visible_keys
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "identity", paper="arXiv:2212.07677, section 2")
class Identity(Weighting):
    """Scores as they are: ``s_j``.

    Shapes: ``(b h q k) -> (b h q k)``. Options: none. Nothing is trained. Weights may be negative
    and do not sum to one. With inner products as scores, attention is linear in queries, keys and
    values (von Oswald et al. 2023); outputs grow with the length of the text.

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "identity")(torch.tensor([[[[1.0, -2.0]]]]), tfzoo.Mask())
    tensor([[[[ 1., -2.]]]])
    """

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        return scores.masked_fill(~visible_keys(scores, mask), 0.0)
