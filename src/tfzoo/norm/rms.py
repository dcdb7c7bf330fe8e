"""RMS norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.contracts import Norm
from tfzoo.norm._rms_kernel import rms_norm


@register("norm", "rms", paper="arXiv:1910.07467, eq. 4")
class RMS(Norm):
    """Divide each token by its root mean square: ``x / sqrt(mean(x^2) + eps) * weight``.

    Shapes: ``(b n d) -> (b n d)``; ``weight`` is ``(d)`` and starts at one (Zhang and Sennrich
    2019, section 3). Computed in fp32 or better and rounded once, at the end, as in
    ``F.rms_norm``; Llama rounds before the weight as well.

    Options:
        eps: added to the mean square.
        centred: multiply by ``1 + weight``, where ``weight`` starts at zero (Gemma): weight decay
            then pulls the factor to one.

    Raises:
        BadOption: ``eps`` not over 0.

    >>> import torch
    >>> from tfzoo.base.registry import create
    >>> create("norm", "rms", dim=2)(torch.tensor([[[2.0, -2.0]]])).round()
    tensor([[[ 1., -1.]]], grad_fn=<RoundBackward0>)
    """

    def __init__(self, dim: int, *, eps: float = 1e-6, centred: bool = False) -> None:
        super().__init__()
        check_range("norm 'rms': eps", eps, gt=0)
        self.eps, self.centred = eps, centred
        self.weight = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, 0.0 if self.centred else 1.0)

    def factor(self, dtype: torch.dtype) -> Tensor:
        """What tokens are multiplied by: ``(d)``"""
        weight = self.weight.to(dtype)
        return 1.0 + weight if self.centred else weight

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        dtype = compute_dtype(x, self.weight)
        return rms_norm(x.to(dtype), self.factor(dtype), self.eps).to(x.dtype)
