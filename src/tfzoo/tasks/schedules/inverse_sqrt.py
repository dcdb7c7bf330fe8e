"""The schedule of the Transformer paper."""

from __future__ import annotations

from tfzoo.registry import register


@register("schedule", "inverse_sqrt", paper="arXiv:1706.03762, eq. 3")
class InverseSqrt:
    """Linear to the peak, then falling with the root of the update: ``min(s / warmup, sqrt(warmup /
    s))``.

    With the peak ``(dim * warmup) ** -0.5`` this is the schedule of the paper.

    >>> InverseSqrt(warmup=100).factor(400)
    0.5
    """

    def __init__(self, *, warmup: int = 4000) -> None:
        self.warmup = max(warmup, 1)

    def factor(self, update: int) -> float:
        """In units of the peak."""
        return float(min(update / self.warmup, (self.warmup / update) ** 0.5))
