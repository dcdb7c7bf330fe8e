"""A convolution whose weights are positive and few."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.functional import at_least_fp32, dropout
from tfzoo.base.linear import Linear
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.mixer._packing import Packing
from tfzoo.errors import BadOption
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer
from tfzoo.models.options import StackOptions

LONGEST = 65_536
"""Limit of ``kernel_size``: so many tokens of padding stand before each text."""


@register("mixer", "convolution", paper="arXiv:1901.10430, section 3", traits={"ordered", "reach"})
class Convolution(Mixer):
    """A lightweight convolution: ``y_t = sum_i softmax(w)_i u_{t + i - c}`` with ``u = (x A + a) *
    sigmoid(x B + b)``, then a projection ``y V + e``; ``w`` is shared by the channels of a head.

    Shapes: ``(b n d) -> (b n d)``; ``w`` is ``(h kernel_size)`` and starts uniform by Glorot's
    rule. The middle of the kernel stands at ``t`` in encoders, its end in decoders, where the cache
    has the last ``kernel_size - 1`` tokens. Both ends of a sequence are padded by zeros. Of the
    options of attention it reads ``heads``, ``bias`` and ``attention_dropout``, which drops
    weights of the kernel (Wu et al. 2019).

    Options:
        kernel_size: the number of tokens that a token sees, itself included.

    Raises:
        BadOption: ``kernel_size`` under 1 or over 65,536, or ``heads`` do not divide ``dim``.

    >>> import tfzoo, torch
    >>> encoder = tfzoo.Encoder(8, 2, 1, mixer={"name": "convolution", "kernel_size": 3})
    >>> encoder(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    reads = frozenset(("heads", "bias", "attention_dropout"))

    def __init__(
        self, dim: int, options: StackOptions, causal: bool, *, kernel_size: int = 31
    ) -> None:
        super().__init__()
        check_range("mixer 'convolution': kernel_size", kernel_size, ge=1, le=LONGEST, whole=True)
        self.causal = causal
        self.heads, self.dropout = options.heads, options.attention_dropout
        if dim % self.heads:
            raise BadOption(f"mixer 'convolution': heads={self.heads} do not divide dim={dim}")
        self.earlier = kernel_size - 1 if causal else (kernel_size - 1) // 2
        self.later = kernel_size - 1 - self.earlier
        self.input = Linear(dim, 2 * dim, bias=options.bias)
        self.kernel = nn.Parameter(torch.empty(self.heads, kernel_size))
        self.output = Linear(dim, dim, bias=options.bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Projections initialise themselves."""
        nn.init.xavier_uniform_(self.kernel)

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        x = F.glu(self.input(x), -1)
        non_padding = context.non_padding()
        if non_padding is not None:
            x = x.masked_fill(~non_padding[..., None], 0.0)
        packing = Packing(non_padding)
        x = packing.pack(x)
        earlier = x.new_zeros(x.shape[0], self.earlier, x.shape[2])
        if context.cache is not None:
            kept = context.cache.target[layer].tensors
            earlier = kept.get("inputs", earlier)
            kept["inputs"] = packing.last(torch.cat([earlier, x], 1), self.earlier)
        x = F.pad(torch.cat([earlier, x], 1), (0, 0, 0, self.later))
        return self.output(packing.unpack(self.convolve(x)))

    def convolve(self, x: Tensor) -> Tensor:
        """``(b n+kernel_size-1 d) -> (b n d)``"""
        n = x.shape[1] - self.kernel.shape[1] + 1
        if n == 0:  # PyTorch's takes no texts that are shorter than the kernel
            x = F.pad(x, (0, 0, 0, 1))
        weights = dropout(at_least_fp32(self.kernel).softmax(-1), self.dropout * self.training)
        d = x.shape[-1]
        each = weights.to(x.dtype).repeat_interleave(d // self.heads, 0)[:, None]
        return F.conv1d(x.mT.contiguous(), each, groups=d).mT[:, :n]
