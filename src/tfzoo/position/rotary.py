"""Turn queries and keys, so that their products depend on distance."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tfzoo.contracts import Position, Rotation
from tfzoo.errors import BadOption
from tfzoo.registry import register
from tfzoo.values import positive


@register("position", "rotary", paper="arXiv:2104.09864, eq. 15 and 34")
class Rotary(Position):
    """Turn pair ``i`` of a query's and key's channels by ``pos / base^(2i/c)``, so that scores
    depend on distance alone.

    Overrides ``angles``: ``(b|1 n)`` to the :class:`~tfzoo.contracts.Rotation` of ``(b h n c)``.
    Nothing is trained.

    Su et al. 2021, sections 3.2.2 and 3.4.2. Angles in fp32: in bf16 they are visibly wrong from
    position 58 on.

    Options:
        base: the slowest pair comes round after ``2 pi base`` tokens.
        layout: ``interleaved`` pairs channels ``2i, 2i+1`` (RoFormer, GPT-J), ``half`` pairs ``i, i
            + c/2`` (Llama, GPT-NeoX). Weights trained with one do not fit the other.

    Raises:
        BadOption: ``base`` not over 0, or the width of a head is odd.

    >>> import torch
    >>> from tfzoo.registry import create
    >>> turn = create("position", "rotary", head_dim=2).angles(torch.arange(2)[None])
    >>> turn(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]))
    tensor([[[[1.0000, 0.0000],
              [0.5403, 0.8415]]]])
    """

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        layout: Literal["interleaved", "half"] = "interleaved",
    ) -> None:
        super().__init__()
        positive("position 'rotary'", base=base)
        if head_dim % 2:
            raise BadOption(
                f"position 'rotary' turns pairs of channels, so the width of a head must be even, not {head_dim}: set head_dim"
            )
        self.head_dim, self.base, self.layout = head_dim, base, layout

    def angles(self, pos: Tensor) -> Rotation:
        rates = self.base ** (
            torch.arange(0, self.head_dim, 2, dtype=torch.float32, device=pos.device)
            / -self.head_dim
        )
        angles = pos[:, None, :, None] * rates
        return Rotation(angles.cos(), angles.sin(), halves=self.layout == "half")
