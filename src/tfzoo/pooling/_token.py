"""One token of each sequence."""

from __future__ import annotations

from torch import Tensor


def token_at(x: Tensor, valid: Tensor, place: Tensor) -> Tensor:
    """The token at ``place``; zeros for a text without any: ``(b n d), (b n), (b) -> (b d)``."""
    token = x.gather(1, place[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
    return token.masked_fill(~valid.any(1, keepdim=True), 0.0)
