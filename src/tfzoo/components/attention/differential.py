"""The difference of two attention maps."""

import math

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from tfzoo.base.functional import at_least_fp32
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.attention._inner_products import inner_product_attention
from tfzoo.contracts import Attention
from tfzoo.errors import BadOption
from tfzoo.masks import Mask


@register(
    "attention",
    "differential",
    paper="arXiv:2410.05258, eq. 1 to 3",
    traits={"rotatable", "mixes_heads"},
)
class Differential(Attention):
    """The difference of two attention maps: ``(1 - lambda_init) norm((A_1 - lambda A_2) [v_1,
    v_2])`` for each pair of heads, ``A_i = softmax(q_i k_i^T / sqrt(c))``.

    Shapes: ``(b h q c), (b h k c), (b h k e) -> (b h q e)``. Heads ``i`` and ``i + h / 2`` are a
    pair; their values are joined, ``[v_1, v_2]`` of width ``2 e``, and the output of pair ``i`` is
    that of heads ``2 i`` and ``2 i + 1``. ``norm`` divides by the root mean square of the ``2 e``
    channels and trains nothing.

    Ye et al. 2024: what both maps give to irrelevant keys cancels. ``lambda = exp(lambda_q1 .
    lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init``: four trained vectors of width ``c``,
    shared by all heads, which start with a standard deviation of 0.1; ``lambda_q`` and ``lambda_k``
    are ``(2 c)``. ``lambda_init = 0.8 - 0.6 exp(-0.3 layer)``, layers counted from 0. With another
    weighting than softmax, ``A_i`` are its weights. Equal to DiffLlama of ``transformers``.

    Options:
        eps: added to the mean square of the norm.

    Raises:
        BadOption: an odd number of heads; ``eps`` not over 0.

    >>> import tfzoo, torch
    >>> attention = tfzoo.create("attention", "differential", heads=2, head_dim=4, layer=0)
    >>> q, k, v = 10 * torch.randn(3, 1, 2, 5, 4)
    >>> out = attention(q, k, v, mask=tfzoo.Mask(causal=True))
    >>> out.square().mean((1, 3)).sqrt().detach()  # 1 - lambda_init = 0.8
    tensor([[0.8000, 0.8000, 0.8000, 0.8000, 0.8000]])
    """

    def __init__(self, heads: int, head_dim: int, layer: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        if heads % 2:
            raise BadOption(
                f"attention 'differential' has two heads for each pair of maps: heads={heads} "
                "must be even"
            )
        check_range("attention 'differential': eps", eps, gt=0)
        self.eps = eps
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * layer)
        self.lambda_q = nn.Parameter(torch.empty(2, head_dim))
        self.lambda_k = nn.Parameter(torch.empty(2, head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.lambda_q, std=0.1)
        nn.init.normal_(self.lambda_k, std=0.1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q / math.sqrt(q.shape[-1])) @ k.mT

    def second_map(self) -> Tensor:
        """The weight of the second map, ``lambda``, in fp32 or better."""
        products = at_least_fp32(self.lambda_q) * at_least_fp32(self.lambda_k)
        first, second = products.sum(-1).exp().unbind()
        return first - second + self.lambda_init

    def combine(self, weights: Tensor, v: Tensor) -> Tensor:
        first, second = weights.chunk(2, 1)
        difference = first - self.second_map().to(weights.dtype) * second
        return self.normalised(difference @ torch.cat(v.chunk(2, 1), -1))

    def normalised(self, pairs: Tensor) -> Tensor:
        """The norm, and its two halves as two heads: ``(b h/2 q 2e) -> (b h q e)``."""
        wide = at_least_fp32(pairs)
        normed = (1.0 - self.lambda_init) * rms_norm(wide, wide.shape[-1:], eps=self.eps)
        return rearrange(normed.to(pairs.dtype), "b p q (two e) -> b (p two) q e", two=2)

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
        if dropout > 0.0:
            return super().softmax_attention(
                q, k, v, mask=mask, bias=bias, temperature=temperature, dropout=dropout
            )
        scale = 1.0 / (temperature * math.sqrt(q.shape[-1]))
        v = torch.cat(v.chunk(2, 1), -1).repeat(1, 2, 1, 1)
        y = inner_product_attention(q, k, v, mask=mask, bias=bias, scale=scale)
        first, second = y.chunk(2, 1)
        return self.normalised(first - self.second_map().to(y.dtype) * second)
