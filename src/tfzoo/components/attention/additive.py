"""A small network as score (Bahdanau attention)."""

import torch
from torch import Tensor, nn

from tfzoo.base.functional import dropout as drop
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.attention._tanh_scores import tanh_scores
from tfzoo.contracts import Attention
from tfzoo.masks import Mask


@register("attention", "additive", paper="arXiv:1409.0473, section A.1.2")
class Additive(Attention):
    """A network of one hidden layer as score: ``softmax(v^T tanh(W q + U k)) values``, one ``W``,
    ``U`` and ``v`` per head.

    Shapes: ``(b h q c), (b h k c), (b h k e) -> (b h q e)``; ``W`` and ``U`` are ``(h c a)``, ``v``
    is ``(h a)``; ``a`` is ``hidden``.

    Bahdanau et al. 2015, appendix A.1.2. They start ``W`` and ``U`` from N(0, 0.001^2) and ``v``
    from zero (appendix B.1), and so does this by default. Scores are computed in fp32 or better,
    without a tensor of ``(b h q k a)`` in the forward or the backward.

    Options:
        hidden: width of the hidden layer; None is the width of a head.
        std: standard deviation of the initial ``W`` and ``U``.
        score_std: standard deviation of the initial ``v``. Initial scores have a variance of at
            most ``a score_std^2``.

    Raises:
        BadOption: ``hidden`` under 1, ``std`` not over 0 or ``score_std`` under 0.

    >>> import tfzoo, torch
    >>> attention = tfzoo.create("attention", "additive", heads=2, head_dim=4)
    >>> q, k = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 7, 4)
    >>> attention.scores(q, k).shape
    torch.Size([1, 2, 5, 7])
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        *,
        hidden: int | None = None,
        std: float = 0.001,
        score_std: float = 0.0,
    ) -> None:
        super().__init__()
        check_range("attention 'additive': hidden", hidden, ge=1, whole=True, optional=True)
        check_range("attention 'additive': std", std, gt=0)
        check_range("attention 'additive': score_std", score_std, ge=0)
        self.std, self.score_std = std, score_std
        width = hidden or head_dim
        self.query = nn.Parameter(torch.empty(heads, head_dim, width))
        self.key = nn.Parameter(torch.empty(heads, head_dim, width))
        self.score = nn.Parameter(torch.empty(heads, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.query, self.key):
            nn.init.normal_(weight, std=self.std)
        nn.init.normal_(self.score, std=self.score_std)

    def prepare_keys(self, k: Tensor) -> Tensor:
        return k @ self.key

    def prepared_scores(self, q: Tensor, k: Tensor) -> Tensor:
        return tanh_scores(q @ self.query, k, self.score)

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
        a, score = q @ self.query, self.score / temperature
        first = mask.first_query(a.shape[-2], k.shape[-2]) if mask.causal else None
        weights = mask.softmax(tanh_scores(a, k, score, first), bias, finite=True)
        return drop(weights.to(v.dtype), dropout) @ v
