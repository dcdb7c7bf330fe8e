"""A bound on scores and logits."""

from __future__ import annotations

from torch import Tensor


def soft_cap(x: Tensor, cap: float | Tensor) -> Tensor:
    """``cap tanh(x / cap)``, which lies between ``-cap`` and ``cap`` (Gemma 2; Gemma Team 2024,
    arXiv:2408.00118, section 2).
    """
    return cap * (x / cap).tanh()
