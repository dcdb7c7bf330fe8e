"""The pooling of ModernBERT."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.linear import CastLinear
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.pooling.first import First
from tfzoo.components.pooling.mean import Mean
from tfzoo.contracts import Pooling


@register("pooling", "prediction_head", paper="arXiv:2412.13663; its code", traits={"reads_first"})
class PredictionHead(Pooling):
    """A layer and a norm on the first real token, as before the logits of masked words
    (ModernBERT): ``layer_norm(gelu(W x_1))``.

    Shapes: ``(b n d), (b n) -> (b d)``; padding may stand on either side. A sequence of no token
    gives zeros. ``W`` starts uniform by Glorot's rule, the norm's weight at one and bias at zero.

    Options:
        of: ``first``, or ``mean`` for the mean of the real tokens in place of ``x_1``.
        bias: ``W`` has a bias.
        norm_bias: the norm has one.
        eps: is added to the norm's variance.

    Raises:
        BadOption: ``eps`` is not over 0.

    >>> import tfzoo, torch
    >>> tfzoo.create("pooling", "prediction_head", dim=8)(torch.randn(3, 7, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        dim: int,
        *,
        of: Literal["first", "mean"] = "first",
        bias: bool = False,
        norm_bias: bool = False,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        check_range("pooling 'prediction_head': eps", eps, gt=0)
        self.token: Pooling = First() if of == "first" else Mean()
        self.linear = CastLinear(dim, dim, bias=bias)
        self.norm = nn.LayerNorm(dim, eps=eps, bias=norm_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.linear.weight)
        if self.linear.bias is not None:
            nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        norm, dtype = self.norm, compute_dtype(x, self.linear.weight)
        hidden = F.gelu(self.linear(self.token(x, valid).to(dtype)))
        scale, shift = norm.weight.to(dtype), None if norm.bias is None else norm.bias.to(dtype)
        return F.layer_norm(hidden, norm.normalized_shape, scale, shift, norm.eps).to(x.dtype)

    def token_index(self, x: Tensor, valid: Tensor | None = None) -> Tensor | None:
        return self.token.token_index(x, valid)
