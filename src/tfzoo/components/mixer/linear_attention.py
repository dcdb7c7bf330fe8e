"""Attention whose cost is linear in the number of tokens."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from tfzoo.base.functional import at_least_fp32, without_autocast
from tfzoo.base.linear import Linear, projections
from tfzoo.base.registry import register
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer
from tfzoo.models.options import StackOptions

CHUNK = 64
"""Tokens whose products are computed pairwise in a decoder; the sum over earlier ones is shared."""


@register("mixer", "linear_attention", paper="arXiv:2006.16236, sections 3.2 and 3.3")
class LinearAttention(Mixer):
    """Attention without a softmax, by sums over keys and values: ``phi(q) S / (phi(q) z)`` in each
    head, with ``S = sum_j phi(k_j)^T v_j``, ``z = sum_j phi(k_j)^T`` and ``phi(x) = elu(x) + 1``.

    Shapes: ``(b n d) -> (b n d)``. In a decoder the sums are over the tokens up to each. The cost
    is linear in the number of tokens, and the cache has ``S`` and ``z`` only. Sums are in fp32 or
    better (Katharopoulos et al. 2020). Of the options of attention it reads ``heads``,
    ``head_dim``, ``value_head_dim`` and ``bias``. A decoder that ``torch.export`` exported is
    quadratic in the number of tokens. Options: none.

    >>> import tfzoo, torch
    >>> tfzoo.Encoder(8, 2, 1, mixer="linear_attention")(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    reads = frozenset(("heads", "head_dim", "value_head_dim", "bias"))

    def __init__(self, dim: int, options: StackOptions, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = options.heads, causal
        head_dim = options.width_of_head(dim)
        width = self.heads * (options.value_head_dim or head_dim)
        self.query = Linear(dim, self.heads * head_dim, bias=options.bias)
        self.key = Linear(dim, self.heads * head_dim, bias=options.bias)
        self.value = Linear(dim, width, bias=options.bias)
        self.output = Linear(width, dim, bias=options.bias)

    def value_matrices(self) -> list[Tensor]:
        """Those of values and of the output."""
        return [self.value.weight, self.output.weight]

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        q, k, v = (
            rearrange(at_least_fp32(one), "b n (h c) -> b h n c", h=self.heads)
            for one in projections(x, [self.query, self.key, self.value])
        )
        with without_autocast(x):
            y = self.attend(feature_map(q), feature_map(k), v, context, layer)
        return self.output(rearrange(y, "b h n e -> b n (h e)").to(x.dtype))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: Context, layer: int) -> Tensor:
        """``(b h n c), (b h n c), (b h n e) -> (b h n e)``; queries and keys are positive."""
        # One more channel of ones gives z beside S, and so the denominator beside the numerator.
        v = F.pad(v, (0, 1), value=1.0)
        non_padding = context.non_padding()
        if non_padding is not None:
            hidden = ~non_padding[:, None, :, None]
            k, v = k.masked_fill(hidden, 0.0), v.masked_fill(hidden, 0.0)
        if not self.causal:
            y = q @ (k.mT @ v)
        elif context.cache is None:
            y, _ = causal_sums(q, k, v)
        else:
            kept = context.cache.target[layer].tensors
            y, kept["state"] = causal_sums(q, k, v, kept.get("state"))
        total = y[..., -1:]
        return y[..., :-1] / total.masked_fill(total == 0, 1.0)


def feature_map(x: Tensor) -> Tensor:
    """``elu(x) + 1``, without rounding to 0 where ``exp(x)`` is small."""
    return torch.where(x > 0, x + 1, x.clamp(max=0.0).exp())


def causal_sums(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """``sum_{j <= i} (q_i k_j) v_j + q_i state``, ``(b h n c), (b h n c), (b h n e), (b h c e) ->
    (b h n e)``, and the state after the last token, ``state + sum_j k_j^T v_j``.
    """
    n = q.shape[2]
    if torch.compiler.is_exporting():  # one chunk: their number may not depend on the length
        q, k, v = (one.unsqueeze(2) for one in (q, k, v))
    else:
        chunk = min(CHUNK, max(n, 1))
        q, k, v = (
            rearrange(F.pad(one, (0, 0, 0, -n % chunk)), "b h (m n) c -> b h m n c", n=chunk)
            for one in (q, k, v)
        )
    sums = k.mT @ v
    b, h, _, c, e = sums.shape
    first = (sums.new_zeros(b, h, c, e) if state is None else state)[:, :, None]
    states = torch.cat([first, sums], 2).cumsum(2)
    y = (q @ k.mT).tril() @ v + q @ states[:, :, :-1]
    return y.flatten(2, 3)[:, :, :n], states[:, :, -1]
