"""Norm to one trained length."""

import math

import torch
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.norm.rms import rms_norm
from tfzoo.contracts import Norm


@register("norm", "scale", paper="arXiv:1910.05895, section 2.3")
class Scale(Norm):
    """Give every token the same trained length: ``g x / sqrt(|x|^2 + eps)``.

    Shapes: ``(b n d) -> (b n d)``; ``g`` is one number, ``(1)``, and starts at ``sqrt(d)`` (Nguyen
    and Salazar 2019: ScaleNorm). Computed in fp32 or better, as an RMS norm
    whose weights are all ``g / sqrt(d)``.

    Options:
        eps: added to the squared length.

    Raises:
        BadOption: ``eps`` not over 0.

    >>> import tfzoo, torch
    >>> norm = tfzoo.create("norm", "scale", dim=4)
    >>> norm(torch.tensor([[[0.0, 3.0, 0.0, 4.0]]])).detach()
    tensor([[[0.0000, 1.2000, 0.0000, 1.6000]]])
    """

    def __init__(self, dim: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        check_range("norm 'scale': eps", eps, gt=0)
        self.dim, self.eps = dim, eps
        self.g = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.g, math.sqrt(self.dim))

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        dtype = compute_dtype(x, self.g)
        weight = (self.g.to(dtype) / math.sqrt(self.dim)).repeat(self.dim)
        return rms_norm(x.to(dtype), weight, self.eps / self.dim).to(x.dtype)
