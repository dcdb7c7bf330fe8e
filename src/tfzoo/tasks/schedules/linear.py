"""A straight line to zero."""

from __future__ import annotations

from tfzoo.registry import register


@register("schedule", "linear", paper="arXiv:1810.04805, appendix A.2")
class LinearDecay:
    """Linear to the peak, then linear to zero at the last update: ``(max_steps - s) / (max_steps -
    warmup)``.

    >>> LinearDecay(100, warmup=0).factor(75)
    0.25
    """

    def __init__(self, max_steps: int, *, warmup: int = 0) -> None:
        self.max_steps = max_steps
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """In units of the peak."""
        if update <= self.warmup:
            return update / self.warmup
        return max(self.max_steps - update, 0) / max(self.max_steps - self.warmup, 1)
