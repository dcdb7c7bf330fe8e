"""Half a cosine."""

from __future__ import annotations

import math

from tfzoo.registry import register


@register("schedule", "cosine", paper="arXiv:1608.03983, eq. 5")
class Cosine:
    """Linear to the peak, then half a cosine to zero at the last update: ``(1 + cos(pi t)) / 2``,
    ``t`` from 0 to 1.

    >>> Cosine(100).factor(50)
    0.5
    """

    def __init__(self, max_steps: int, *, warmup: int = 0) -> None:
        self.max_steps = max_steps
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """In units of the peak."""
        if update <= self.warmup:
            return update / self.warmup
        t = min((update - self.warmup) / max(self.max_steps - self.warmup, 1), 1.0)
        return round((1 + math.cos(math.pi * t)) / 2, 12)
