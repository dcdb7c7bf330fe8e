"""Softmax over the best few keys."""

from torch import Tensor
from torch.nn.functional import pad

from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.weighting._visible import visible_keys
from tfzoo.contracts import Weighting
from tfzoo.masks import Mask


@register("weighting", "top_k", paper="arXiv:1912.11637, section 3", traits={"sparse"})
class TopK(Weighting):
    """Softmax over the ``k`` keys with the largest scores: ``softmax(s_j if s_j >= t else -inf)``,
    where ``t`` is the ``k``-th largest score.

    Shapes: ``(b h q k) -> (b h q k)``. Nothing is trained.

    Zhao et al. 2019 (Explicit Sparse Transformer). Keys with the same score as the ``k``-th are
    kept too. No gradient reaches the other scores.

    Options:
        k: the number of keys that a query attends to.

    Raises:
        BadOption: ``k`` under 1.

    >>> import tfzoo, torch
    >>> weighting = tfzoo.create("weighting", {"name": "top_k", "k": 2})
    >>> weighting(torch.tensor([[[[1.0, -1.0, 1.0, 0.0]]]]), tfzoo.Mask())
    tensor([[[[0.5000, 0.0000, 0.5000, 0.0000]]]])
    """

    def __init__(self, *, k: int = 8) -> None:
        super().__init__()
        check_range("weighting 'top_k': k", k, ge=1, whole=True)
        self.k = k

    def forward(self, scores: Tensor, mask: Mask) -> Tensor:
        visible = visible_keys(scores, mask)
        shown = scores.detach().masked_fill(~visible, float("-inf"))
        # With k more keys, there are k of them.
        smallest = pad(shown, (0, self.k), value=float("-inf")).topk(self.k).values[..., -1:]
        return Mask(allowed=visible & ~(shown < smallest)).softmax(scores)
