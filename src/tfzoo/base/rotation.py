"""Rotary position: pairs of channels of queries and keys, rotated by an angle that grows with the
position.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tfzoo.base.functional import compute_dtype
from tfzoo.base.kernels import custom_functions_apply


@dataclass  # not frozen: PyTorch 2.10 does not compile what makes a frozen one
class Rotation:
    """The rotation of each position, as ``cos`` and ``sin`` of its angles: ``(b|1 1 n c/2)``, in
    fp32 or float64.

    ``halves`` pairs channel ``i`` with ``i + c/2``; otherwise ``2i`` with ``2i + 1``. Channels
    beyond the first ``c`` pass unchanged.
    """

    cos: Tensor
    sin: Tensor
    halves: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Queries or keys, rotated in fp32 or better and returned in their dtype: ``(b h n c) ->
        (b h n c)``.
        """
        rotated = 2 * self.cos.shape[-1]
        if rotated < x.shape[-1]:
            first, rest = torch.split(x, [rotated, x.shape[-1] - rotated], -1)
            return torch.cat((self(first), rest), -1)
        rotate = rotate_halves if self.halves else rotate_pairs
        dtype = compute_dtype(x, self.cos)
        return rotate(x.to(dtype), self.cos.to(dtype), self.sin.to(dtype)).to(x.dtype)


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate channels ``2i`` and ``2i + 1``: one complex product, hardly slower than a copy."""
    pairs = x.view(*x.shape[:-1], x.shape[-1] // 2, 2)
    if not custom_functions_apply():  # torch.compile has no complex numbers
        a, b = pairs.unbind(-1)
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    if (
        pairs.stride(-1) != 1
        or pairs.storage_offset() % 2
        or any(stride % 2 for stride in pairs.stride()[:-1])
    ):
        pairs = pairs.contiguous()
    return torch.view_as_real(torch.view_as_complex(pairs) * torch.complex(cos, sin)).flatten(-2)


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate channels ``i`` and ``i + c/2``."""
    other = x.roll(x.shape[-1] // 2, -1)
    return x * torch.cat((cos, cos), -1) + other * torch.cat((-sin, sin), -1)
