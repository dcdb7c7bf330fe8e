"""The mean of what may be seen."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import count, visible_keys
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "uniform", traits={"ignores_scores"})
class Uniform(Weighting):
    """The same weight for every key: ``1 / n`` for the ``n`` keys that the query may look at.

    Shapes: ``(b h q k) -> (b h q k)``. Options: none. Nothing is trained. Attention is then the
    mean of the values, whatever the scores; queries and keys get no gradient.

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "uniform")(torch.zeros(1, 1, 2, 2), tfzoo.Mask(causal=True))
    tensor([[[[1.0000, 0.0000],
              [0.5000, 0.5000]]]])
    """

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        visible = visible_keys(scores, mask)
        return visible.to(scores.dtype) / count(visible)
