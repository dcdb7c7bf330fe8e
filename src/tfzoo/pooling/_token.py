"""Single tokens of a sequence."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def at_least_one(x: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Texts of no token get one of padding, so that there is something to read: ``(b n d), (b n) ->
    (b n|1 d), (b n|1)``.
    """
    if x.shape[1]:
        return x, valid
    return F.pad(x, (0, 0, 0, 1)), x.new_zeros(x.shape[0], 1, dtype=torch.bool)


def token_at(x: Tensor, valid: Tensor, place: Tensor) -> Tensor:
    """The token at ``place``; zeros for a text without any: ``(b n d), (b n), (b) -> (b d)``."""
    token = x.gather(1, place[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
    return token.masked_fill(~valid.any(1, keepdim=True), 0.0)
