"""A Fourier transform in place of attention."""

from math import tau

import torch
from torch import Tensor

from tfzoo.base.functional import at_least_fp32, without_autocast
from tfzoo.base.registry import register
from tfzoo.models.context import Context
from tfzoo.models.mixer import Mixer


@register("mixer", "fourier", paper="arXiv:2105.03824, eq. 3", traits={"ordered", "bidirectional"})
class Fourier(Mixer):
    """The real part of a Fourier transform over tokens and channels: ``Re sum_{s,e} x[s, e]
    exp(-2 pi i (t s / n + c e / d))``, without parameters.

    Shapes: ``(b n d) -> (b n d)``; ``n`` is the number of real tokens of each row. It is computed
    in fp32 or better. A batch without padding takes a fast transform, ``n log n``, one with
    padding a product with a matrix for each row, ``n^2``. Outputs are about ``sqrt(n d)`` times as
    large as inputs, so a norm should follow (``residual: post``, as in the paper: Lee-Thorp et al.
    2021). Options: none.

    >>> import tfzoo, torch
    >>> tfzoo.Encoder(8, 2, 1, mixer="fourier")(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        wide, non_padding = at_least_fp32(x), context.non_padding()
        if x.numel() == 0:  # which PyTorch's transforms refuse
            return x
        if non_padding is None:
            return torch.fft.fft2(wide, dim=(1, 2)).real.to(x.dtype)  # type: ignore[no-any-return]
        over_channels = torch.fft.fft(wide.masked_fill(~non_padding[..., None], 0.0), dim=2)
        place = non_padding.cumsum(1) - 1
        n = non_padding.sum(1).clamp(min=1)[:, None, None]
        # Whole turns are taken off as integers, so that large angles are exact.
        angle = place[:, :, None] * place[:, None, :] % n * (tau / n.to(wide.dtype))
        with without_autocast(x):
            y = angle.cos() @ over_channels.real + angle.sin() @ over_channels.imag
        return y.to(x.dtype)  # type: ignore[no-any-return]
