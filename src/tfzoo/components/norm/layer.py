"""Layer norm."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.contracts import Norm


@register("norm", "layer", paper="arXiv:1607.06450, eq. 4")
class Layer(Norm):
    """Normalise each token over its channels: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Shapes: ``(b n d) -> (b n d)``; ``weight`` and ``bias`` are ``(d)`` and start at one and zero
    (Ba et al. 2016, section 3.1). Statistics in fp32 or better.

    Options:
        eps: added to the variance.
        bias: False drops the bias (ModernBERT, Cohere).

    Raises:
        BadOption: ``eps`` not over 0.

    >>> import tfzoo, torch
    >>> tfzoo.create("norm", "layer", dim=2)(torch.tensor([[[1.0, 3.0]]])).round()
    tensor([[[-1.,  1.]]], grad_fn=<RoundBackward0>)
    """

    def __init__(self, dim: int, *, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        check_range(f"norm {self.entry.name!r}: eps", eps, gt=0)
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(dim))
        self.bias = nn.Parameter(torch.empty(dim)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        wide = x
        # PyTorch's CPU kernel sums the gradients of bf16 weights in bf16: 256 of 4096 equal tokens.
        narrow = x.dtype.itemsize < 4 and x.device.type == "cpu"
        if narrow or x.dtype != weight.dtype:
            dtype = compute_dtype(x, weight)
            weight, wide = weight.to(dtype), x.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        return F.layer_norm(wide, weight.shape, weight, bias, self.eps).to(x.dtype)
