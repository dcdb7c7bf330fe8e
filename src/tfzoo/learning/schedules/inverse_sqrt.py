"""Inverse square-root decay: the schedule of the Transformer paper."""

from __future__ import annotations

from tfzoo.base.registry import register
from tfzoo.base.values import check_range


@register("schedule", "inverse_sqrt", paper="arXiv:1706.03762, eq. 3")
class InverseSqrt:
    """Linear to the peak in ``warmup`` updates, then an inverse square root: ``min(s / warmup,
    sqrt(warmup / s))`` at update ``s`` (the first is 1).

    With ``optim.lr`` set to ``(dim * warmup) ** -0.5`` this is the schedule of the paper.
    ``warmup=0`` has the effect of 1. Training with fewer updates than ``warmup`` does not reach the
    peak.

    >>> InverseSqrt(warmup=100).factor(400)
    0.5
    """

    def __init__(self, *, warmup: int = 4000) -> None:
        check_range("schedule 'inverse_sqrt': warmup", warmup, ge=0)
        self.warmup = max(warmup, 1)

    def factor(self, update: int) -> float:
        """Learning rate divided by the peak."""
        return float(min(update / self.warmup, (self.warmup / update) ** 0.5))
