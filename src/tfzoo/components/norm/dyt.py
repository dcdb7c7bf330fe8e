"""Dynamic tanh: bounded channels without statistics."""

import torch
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.contracts import Norm


@register("norm", "dyt", paper="arXiv:2503.10622, section 4")
class DyT(Norm):
    """Bound each channel by a tanh in place of a norm: ``weight * tanh(alpha x) + bias``.

    Shapes: ``(b n d) -> (b n d)``; ``alpha`` is one trained number, ``(1)``; ``weight`` and
    ``bias`` are ``(d)`` and start at one and zero (Zhu et al. 2025, section 4). Computed in fp32
    or better. It takes no statistics, so the scale of ``x`` stays in the output.

    Options:
        alpha: the start of ``alpha``. The paper takes 0.5, and for large language models more in
            attention (0.2 to 1) than elsewhere.

    Raises:
        BadOption: ``alpha`` not over 0.

    >>> import tfzoo, torch
    >>> tfzoo.create("norm", "dyt", dim=3)(torch.tensor([[[-99.0, 1.0, 99.0]]])).detach()
    tensor([[[-1.0000,  0.4621,  1.0000]]])
    """

    def __init__(self, dim: int, *, alpha: float = 0.5) -> None:
        super().__init__()
        check_range("norm 'dyt': alpha", alpha, gt=0)
        self.initial_alpha = alpha
        self.alpha = nn.Parameter(torch.empty(1))
        self.weight = nn.Parameter(torch.empty(dim))
        self.bias = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.alpha, self.initial_alpha)
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        dtype = compute_dtype(x, self.weight)
        alpha, weight, bias = (one.to(dtype) for one in (self.alpha, self.weight, self.bias))
        return torch.addcmul(bias, weight, torch.tanh(alpha * x.to(dtype))).to(x.dtype)
