"""No decay."""

from __future__ import annotations

from tfzoo.registry import register


@register("schedule", "constant")
class Constant:
    """Linear to the peak, then constant: ``min(s / warmup, 1)``; no warm-up by default.

    >>> Constant().factor(1)
    1.0
    """

    def __init__(self, *, warmup: int = 0) -> None:
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """In units of the peak."""
        return min(update / max(self.warmup, 1), 1.0)
