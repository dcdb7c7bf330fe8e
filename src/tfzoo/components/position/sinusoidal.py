"""Sines and cosines of geometrically growing wavelength."""

from typing import Literal

import torch
from torch import Tensor

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.contracts import Position
from tfzoo.errors import BadOption


@register("position", "sinusoidal", paper="arXiv:1706.03762, section 3.5")
class Sinusoidal(Position):
    """Add sines and cosines of growing wavelength: ``x[2i] + sin(pos / base^(2i/d))``, ``x[2i+1] +
    cos(pos / base^(2i/d))``.

    Overrides ``embed``: ``(b n d), (b|1 n) -> (b n d)``. Nothing is trained; there is no longest
    length.

    Vaswani et al. 2017, section 3.5. Angles in fp32 or better.

    Options:
        base: the longest wavelength is about ``2 pi base`` tokens.
        order: ``interleaved`` is the formula above, as printed in the paper (JoeyNMT);
            ``concatenated`` has all sines in the first half of the channels and all cosines in the
            second (Marian, fairseq).
        endpoint: True spaces the frequencies so that the last one is ``1 / base``: ``1 / base^(i /
            (d/2 - 1))`` (fairseq, tensor2tensor); False stops one step before it.

    Raises:
        BadOption: ``base`` not over 0, or ``dim`` is odd.

    >>> import tfzoo, torch
    >>> position = tfzoo.create("position", "sinusoidal", dim=2)
    >>> position.embed(torch.zeros(1, 2, 2), torch.arange(2)[None])
    tensor([[[0.0000, 1.0000],
             [0.8415, 0.5403]]])
    """

    def __init__(
        self,
        dim: int,
        *,
        base: float = 10000.0,
        order: Literal["interleaved", "concatenated"] = "interleaved",
        endpoint: bool = False,
    ) -> None:
        super().__init__()
        check_range("position 'sinusoidal': base", base, gt=0)
        if dim % 2:
            raise BadOption(f"position 'sinusoidal' pairs channels, so dim must be even, not {dim}")
        self.dim, self.base, self.order = dim, base, order
        self.span = max(dim - 2, 2) if endpoint else dim

    def embed(self, x: Tensor, pos: Tensor, length: Tensor | None = None) -> Tensor:
        channel = torch.arange(0, self.dim, 2, dtype=compute_dtype(x), device=pos.device)
        angles = pos[..., None] * self.base ** (channel / -self.span)
        waves = (angles.sin(), angles.cos())
        if self.order == "interleaved":
            table = torch.stack(waves, -1).flatten(-2)
        else:
            table = torch.cat(waves, -1)
        return x + table.to(x.dtype)
