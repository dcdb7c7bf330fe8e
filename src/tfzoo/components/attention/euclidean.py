"""Squared distance as score."""

import math

from torch import Tensor

from tfzoo.base.functional import at_least_fp32, without_autocast
from tfzoo.base.registry import register
from tfzoo.components.attention._inner_products import inner_product_attention
from tfzoo.contracts import Attention
from tfzoo.masks import Mask


@register(
    "attention",
    "euclidean",
    paper="arXiv:2006.04710, section 3.2",
    traits={"rotatable", "nonpositive"},
)
class Euclidean(Attention):
    """Negative squared distance as score: ``softmax(-|q - k|^2 / sqrt(c)) v``.

    Shapes: ``(b h q c), (b h k c), (b h k e) -> (b h q e)``. Options: none. Nothing is trained.

    Kim et al. 2021 score by squared distance, so that attention is Lipschitz (they also tie the
    projections of queries and keys: ``share_query_key``). ``|q|^2`` is the same for all keys of a
    query, so the softmax cancels it, and the rest costs as much as a dot product. Computed in fp32
    or better: in bf16 the difference of large squares is lost.

    >>> import tfzoo, torch
    >>> q, k = torch.zeros(1, 1, 1, 4), torch.ones(1, 1, 1, 4)
    >>> tfzoo.create("attention", "euclidean").scores(q, k)
    tensor([[[[-2.]]]])
    """

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        with without_autocast(q):
            q, k = at_least_fp32(q), at_least_fp32(k)
            squares = (
                q.square().sum(-1)[..., :, None]
                + k.square().sum(-1)[..., None, :]
                - 2.0 * (q @ k.mT)
            )
            return -squares / math.sqrt(q.shape[-1])

    def softmax_attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask,
        bias: Tensor | None,
        temperature: float,
        dropout: float,
    ) -> Tensor:
        scale = 1.0 / (temperature * math.sqrt(q.shape[-1]))
        with without_autocast(q):
            q, k = at_least_fp32(q), at_least_fp32(k)
            squares = k.square().sum(-1)[..., None, :] * -scale
            bias = squares if bias is None else bias + squares
            return inner_product_attention(
                q, k, at_least_fp32(v), mask=mask, bias=bias, scale=2.0 * scale, dropout=dropout
            ).to(v.dtype)
