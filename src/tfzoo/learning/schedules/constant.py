"""A constant learning rate."""

from __future__ import annotations

from tfzoo.base.registry import register
from tfzoo.base.values import check_range


@register("schedule", "constant")
class Constant:
    """Linear to the peak in ``warmup`` updates, then constant: ``min(s / warmup, 1)`` at update
    ``s`` (the first is 1). Training with fewer updates than ``warmup`` does not reach the
    peak.

    >>> Constant().factor(1)
    1.0
    """

    def __init__(self, *, warmup: int = 0) -> None:
        check_range("schedule 'constant': warmup", warmup, ge=0)
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """Learning rate divided by the peak."""
        return min(update / max(self.warmup, 1), 1.0)
