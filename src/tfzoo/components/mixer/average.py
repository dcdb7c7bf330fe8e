"""A cumulative average with a gate."""

import torch
from torch import Tensor

from tfzoo.base.functional import at_least_fp32
from tfzoo.base.linear import Linear
from tfzoo.base.registry import create, register
from tfzoo.base.values import check_range
from tfzoo.contracts import FeedForward, value_matrices
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer


@register("mixer", "average", paper="arXiv:1805.00631, eq. 1 to 4")
class Average(Mixer):
    """The mean of the tokens, and a gate for it: ``i * x + f * g`` with ``[i; f] = sigmoid([x; g] W
    + b)`` and ``g_t = FFN(sum_{s <= t} x_s / t)``; in encoders ``g = FFN(sum_s x_s / n)``.

    Shapes: ``(b n d) -> (b n d)``; ``W`` is ``(2d 2d)`` and starts uniform by Glorot's rule. The
    cache has a sum and a number of tokens. Sums are in fp32 or better.

    Zhang et al. 2018. Their FFN, ``max(0, g U + a) V + c``, has the width of the layer's
    feed-forward sublayer, and doubles its cost; it is the identity by default.

    Options:
        hidden: width of the hidden layer of FFN; None: FFN is the identity.

    Raises:
        BadOption: ``hidden`` under 1.

    >>> import tfzoo, torch
    >>> tfzoo.Encoder(8, 2, 1, mixer="average")(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, dim: int, causal: bool, *, hidden: int | None = None) -> None:
        super().__init__()
        check_range("mixer 'average': hidden", hidden, ge=1, whole=True, optional=True)
        self.causal = causal
        self.gate = Linear(2 * dim, 2 * dim)
        ffn = "none" if hidden is None else {"name": "relu", "hidden": hidden}
        self.ffn: FeedForward = create("feedforward", ffn, dim=dim)

    def value_matrices(self) -> list[Tensor]:
        """Those of FFN."""
        return value_matrices(self.ffn)

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        mean = self.ffn(self.mean(x, context, layer).to(x.dtype)).expand_as(x)
        keep, take = self.gate(torch.cat([x, mean], -1)).sigmoid().chunk(2, -1)
        return keep * x + take * mean

    def mean(self, x: Tensor, context: Context, layer: int) -> Tensor:
        """The mean of all tokens, or in a decoder of all up to each: ``(b n d) -> (b 1|n d)``."""
        x, non_padding = at_least_fp32(x), context.non_padding()
        if non_padding is None:
            count = x.new_ones(x.shape[0], x.shape[1], 1)
        else:
            count = non_padding[..., None].to(x.dtype)
            x = x.masked_fill(~non_padding[..., None], 0.0)
        # One more channel counts the tokens.
        sums = torch.cat([x, count], -1)
        sums = sums.cumsum(1) if self.causal else sums.sum(1, keepdim=True)
        if context.cache is not None:
            kept = context.cache.target[layer].tensors
            sums = sums + kept["sum"] if "sum" in kept else sums
            if x.shape[1]:
                kept["sum"] = sums[:, -1:]
        return sums[..., :-1] / sums[..., -1:].clamp(min=1.0)
