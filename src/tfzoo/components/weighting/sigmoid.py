"""Each key by itself, between 0 and 1."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.weighting._visible import count, visible_keys
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "sigmoid", paper="arXiv:2409.04431, section 2")
class Sigmoid(Weighting):
    """A sigmoid of each score: ``sigmoid(s_j + b)``, ``b = -log(n)`` for the ``n`` keys that the
    query may look at.

    Shapes: ``(b h q k) -> (b h q k)``. Nothing is trained. Weights do not sum to one.

    Ramapuram et al. 2024: with ``b = -log(n)``, the weights of scores around 0 sum to about one, as
    those of a softmax do.

    Options:
        bias: ``b``, the same for every query; None: ``-log(n)``.

    >>> import tfzoo, torch
    >>> tfzoo.create("weighting", "sigmoid")(torch.zeros(1, 1, 1, 3), tfzoo.Mask())
    tensor([[[[0.2500, 0.2500, 0.2500]]]])
    """

    def __init__(self, *, bias: float | None = None) -> None:
        super().__init__()
        self.bias = bias

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        visible = visible_keys(scores, mask)
        bias = -count(visible).to(scores.dtype).log() if self.bias is None else self.bias
        return (scores + bias).masked_fill(~visible, float("-inf")).sigmoid()
