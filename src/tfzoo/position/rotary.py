"""Queries and keys are rotated, so that their products depend on distance."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tfzoo.contracts import Position
from tfzoo.errors import BadOption
from tfzoo.precision import compute_dtype
from tfzoo.registry import register
from tfzoo.rotation import Rotation
from tfzoo.values import check_range


@register("position", "rotary", paper="arXiv:2104.09864, eq. 15 and 34")
class Rotary(Position):
    """Rotate pair ``i`` of a query's and key's channels by the angle ``pos / base^(2i/c)``: scores
    depend on distance alone.

    Overrides ``angles``: ``(b|1 n)`` to the :class:`~tfzoo.rotation.Rotation` of ``(b h n c)``.
    Nothing is trained.

    Su et al. 2021, sections 3.2.2 and 3.4.2. Angles in fp32, or in float64 after ``.double()``; in
    bf16 they would be visibly wrong from position 58 on.

    Options:
        base: the slowest pair has a period of about ``2 pi base`` tokens.
        layout: ``interleaved`` pairs channels ``2i, 2i+1`` (RoFormer, GPT-J), ``half`` pairs ``i, i
            + c/2`` (Llama, GPT-NeoX). Weights trained with one do not fit the other.

    Raises:
        BadOption: ``base`` not over 0, or the width of a head is odd.

    >>> import torch
    >>> from tfzoo.registry import create
    >>> rotation = create("position", "rotary", head_dim=2).angles(torch.arange(2)[None])
    >>> rotation(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]))
    tensor([[[[1.0000, 0.0000],
              [0.5403, 0.8415]]]])
    """

    precision: Tensor

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        layout: Literal["interleaved", "half"] = "interleaved",
    ) -> None:
        super().__init__()
        check_range("position 'rotary': base", base, gt=0)
        if head_dim % 2:
            raise BadOption(
                f"position 'rotary' rotates pairs of channels, so the width of a head must be "
                f"even, not {head_dim}: set head_dim"
            )
        self.head_dim, self.base, self.layout = head_dim, base, layout
        # Empty; tells the dtype that the module was moved to.
        self.register_buffer("precision", torch.empty(0), persistent=False)

    def angles(self, pos: Tensor) -> Rotation:
        dtype = compute_dtype(self.precision)
        channel = torch.arange(0, self.head_dim, 2, dtype=dtype, device=pos.device)
        angles = pos[:, None, :, None] * self.base ** (channel / -self.head_dim)
        return Rotation(angles.cos(), angles.sin(), halves=self.layout == "half")
