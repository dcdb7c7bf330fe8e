"""Each key by itself, in proportion to its score."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import count, visible_keys
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register(
    "weighting",
    "relu",
    paper="arXiv:2309.08586, section 3",
    traits={"sparse", "needs_positive_scores"},
)
class ReLU(Weighting):
    """Positive scores over the number of keys: ``max(0, s_j) / n`` for the ``n`` keys that the
    query may look at.

    Shapes: ``(b h q k) -> (b h q k)``. Options: none. Nothing is trained. Weights do not sum to
    one.

    Wortsman et al. 2023 divide by the length of the sequence, so that outputs of long and short
    sequences are of one size.

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "relu")(torch.tensor([[[[1.0, -1.0, 2.0, 0.0]]]]), tfzoo.Mask())
    tensor([[[[0.2500, 0.0000, 0.5000, 0.0000]]]])
    """

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        visible = visible_keys(scores, mask)
        return scores.relu().masked_fill(~visible, 0.0) / count(visible)
