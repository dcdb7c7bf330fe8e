"""A cosine decay."""

from __future__ import annotations

import math

from tfzoo.base.registry import register
from tfzoo.base.values import check_range


@register("schedule", "cosine", paper="arXiv:1608.03983, eq. 5")
class Cosine:
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); after ``warmup`` updates
    half a cosine: ``(1 + cos(pi t)) / 2`` with ``t = (s - 1 - warmup) / (max_steps - warmup)``.

    The decay is that of ``get_cosine_schedule_with_warmup`` of transformers, which counts updates
    from 0: the first update after the warm-up has the peak, and the factor would reach 0 one update
    after the last. Training with fewer updates than ``warmup`` does not reach the peak.

    >>> round(Cosine(100).factor(51), 12)
    0.5
    """

    def __init__(self, max_steps: int, *, warmup: int = 0) -> None:
        check_range("schedule 'cosine': warmup", warmup, ge=0)
        self.max_steps = max_steps
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """Learning rate divided by the peak."""
        if update <= self.warmup:
            return update / self.warmup
        t = min((update - 1 - self.warmup) / max(self.max_steps - self.warmup, 1), 1.0)
        # = (1 + cos(pi t)) / 2, without cancellation near t = 1
        return math.cos(math.pi * t / 2) ** 2
