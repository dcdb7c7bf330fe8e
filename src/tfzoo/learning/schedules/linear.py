"""A linear decay."""

from __future__ import annotations

from tfzoo.base.registry import register
from tfzoo.base.values import check_range


@register("schedule", "linear", paper="arXiv:1810.04805, appendix A.2")
class LinearDecay:
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); after ``warmup`` updates
    a linear decay: ``(max_steps - s + 1) / (max_steps - warmup)``.

    The decay is that of ``get_linear_schedule_with_warmup`` of transformers, which counts updates
    from 0: the first update after the warm-up has the peak, the last one ``1 / (max_steps -
    warmup)`` of it, and the factor would reach 0 one update after the last. Training with fewer
    updates than ``warmup`` does not reach the peak.

    >>> LinearDecay(100).factor(76), LinearDecay(100).factor(100)
    (0.25, 0.01)
    """

    def __init__(self, max_steps: int, *, warmup: int = 0) -> None:
        check_range("schedule 'linear': warmup", warmup, ge=0)
        self.max_steps = max_steps
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """Learning rate divided by the peak."""
        if update <= self.warmup:
            return update / self.warmup
        return max(self.max_steps - update + 1, 0) / max(self.max_steps - self.warmup, 1)
