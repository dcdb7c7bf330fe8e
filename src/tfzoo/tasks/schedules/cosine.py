"""A cosine decay."""

from __future__ import annotations

import math

from tfzoo.registry import register
from tfzoo.values import check_range


@register("schedule", "cosine", paper="arXiv:1608.03983, eq. 5")
class Cosine:
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); after ``warmup`` updates
    half a cosine: ``(1 + cos(pi t)) / 2`` with ``t = (s - 1 - warmup) / (max_steps - warmup)``.

    The decay is that of ``get_cosine_schedule_with_warmup`` of transformers, which counts updates
    from 0: the first update after the warm-up has the peak, the last one a rate over 0, and only
    the update after the last would have 0. A training of fewer updates than ``warmup`` ends below
    the peak.

    >>> round(Cosine(100).factor(51), 12)
    0.5
    """

    def __init__(self, max_steps: int, *, warmup: int = 0) -> None:
        check_range("schedule 'cosine': warmup", warmup, ge=0)
        self.max_steps = max_steps
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """In units of the peak."""
        if update <= self.warmup:
            return update / self.warmup
        t = min((update - 1 - self.warmup) / max(self.max_steps - self.warmup, 1), 1.0)
        return math.cos(math.pi * t / 2) ** 2  # = (1 + cos(pi t)) / 2, exact also near 0
