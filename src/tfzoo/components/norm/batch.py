"""Batch norm over the tokens of a batch."""

from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from tfzoo.base.functional import at_least_fp32
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.contracts import Norm


@register("norm", "batch", paper="arXiv:1502.03167, algorithm 1", traits={"mixes_tokens:training"})
class Batch(Norm):
    """Normalise each channel over the real tokens of the batch: ``(x - mean) / sqrt(var + eps) *
    weight + bias``.

    Shapes: ``(b n d), (b n) -> (b n d)``; ``weight`` and ``bias`` are ``(d)`` and start at one and
    zero (Ioffe and Szegedy 2015). Statistics in fp32 or better over the real tokens of all devices;
    the output is 0 at padding. Outside training the running statistics are used (their variance is
    unbiased, as in ``nn.BatchNorm1d``); a batch of fewer than two real tokens does not change them.

    Options:
        eps: added to the variance.
        momentum: weight of the batch in the running statistics.

    Raises:
        BadOption: ``eps`` or ``momentum`` not over 0, or ``momentum`` over 1.

    >>> import tfzoo, torch
    >>> x = torch.tensor([[[1.0], [3.0]], [[5.0], [99.0]]])
    >>> valid = torch.tensor([[True, True], [True, False]])
    >>> norm = tfzoo.create("norm", "batch", dim=1)
    >>> norm(x, valid).detach().flatten()
    tensor([-1.2247,  0.0000,  1.2247,  0.0000])
    >>> norm.running_mean
    tensor([0.3000])
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, dim: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        check_range("norm 'batch': eps", eps, gt=0)
        check_range("norm 'batch': momentum", momentum, gt=0, le=1)
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.empty(dim))
        self.bias = nn.Parameter(torch.empty(dim))
        self.register_buffer("running_mean", torch.empty(dim))
        self.register_buffer("running_var", torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1.0)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        wide = at_least_fp32(x)
        padded = None if valid is None else ~valid[..., None]
        if padded is not None:  # what stands at padding, NaN too, reaches no sum and no gradient
            wide = wide.masked_fill(padded, 0.0)
        mean, variance = (
            self._statistics(wide, padded)
            if self.training
            else (self.running_mean, self.running_var)
        )
        scale = (variance + self.eps).rsqrt() * self.weight
        out = (wide - mean) * scale + self.bias
        return (out if padded is None else out.masked_fill(padded, 0.0)).to(x.dtype)

    def _statistics(self, x: Tensor, padded: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and biased variance of each channel, ``(d)``; ``x`` is 0 at padding. Updates the
        running statistics.
        """
        count = (
            x.new_full((1,), x.shape[0] * x.shape[1])
            if padded is None
            else (~padded).sum().to(x.dtype)[None]
        )
        count, total = over_devices(torch.cat([count, x.sum((0, 1))])).tensor_split([1])
        mean = total / count.clamp(min=1.0)
        centred = x - mean if padded is None else (x - mean).masked_fill(padded, 0.0)
        squares = over_devices(centred.square().sum((0, 1)))
        with torch.no_grad():
            step = (count > 1.0).to(self.running_mean.dtype) * self.momentum
            variance = squares / (count - 1.0).clamp(min=1.0)
            for running, seen in ((self.running_mean, mean), (self.running_var, variance)):
                # The optimiser skips a step that is not finite. The running statistics skip it too.
                running.lerp_(torch.where(seen.isfinite(), seen.to(running.dtype), running), step)
        return mean, squares / count.clamp(min=1.0)


def over_devices(x: Tensor) -> Tensor:
    """The sum over all devices that train together, with its gradient."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return Sum.apply(x)  # type: ignore[no-any-return,no-untyped-call]
    return x


class Sum(torch.autograd.Function):
    """The sum over devices; its gradient is the sum of the devices' gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return Sum.apply(grad)  # type: ignore[no-any-return,no-untyped-call]
