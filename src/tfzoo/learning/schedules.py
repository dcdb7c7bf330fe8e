"""Learning-rate schedules."""

from __future__ import annotations

import math
from typing import ClassVar

from tfzoo.base.registry import Entry, register
from tfzoo.base.values import check_range


@register("schedule", "constant")
class Constant:
    """Linear to the peak in ``warmup`` updates, then constant: ``min(s / warmup, 1)`` at update
    ``s`` (the first is 1).

    >>> Constant().factor(1)
    1.0
    """

    def __init__(self, *, warmup: int = 0) -> None:
        check_range("schedule 'constant': warmup", warmup, ge=0)
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """Learning rate divided by the peak."""
        return min(update / max(self.warmup, 1), 1.0)


@register("schedule", "inverse_sqrt", paper="arXiv:1706.03762, eq. 3")
class InverseSqrt:
    """Linear to the peak in ``warmup`` updates, then an inverse square root: ``min(s / warmup,
    sqrt(warmup / s))`` at update ``s`` (the first is 1).

    With ``optim.lr`` set to ``(dim * warmup) ** -0.5`` this is the schedule of the paper.
    ``warmup=0`` has the effect of 1.

    >>> InverseSqrt(warmup=100).factor(400)
    0.5
    """

    def __init__(self, *, warmup: int = 4000) -> None:
        check_range("schedule 'inverse_sqrt': warmup", warmup, ge=0)
        self.warmup = max(warmup, 1)

    def factor(self, update: int) -> float:
        """Learning rate divided by the peak."""
        return float(min(update / self.warmup, (self.warmup / update) ** 0.5))


class Decay:
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); then what :meth:`decay`
    says.
    """

    entry: ClassVar[Entry]

    def __init__(self, max_steps: int, *, warmup: int = 0) -> None:
        check_range(f"schedule {self.entry.name!r}: warmup", warmup, ge=0)
        self.max_steps = max_steps
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """Learning rate divided by the peak."""
        if update <= self.warmup:
            return update / self.warmup
        return self.decay(update - 1 - self.warmup, max(self.max_steps - self.warmup, 1))

    def decay(self, done: int, steps: int) -> float:
        """The factor after ``done`` of the ``steps`` that follow the warm-up."""
        raise NotImplementedError


@register("schedule", "linear", paper="arXiv:1810.04805, appendix A.2")
class LinearDecay(Decay):
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); after ``warmup`` updates
    a linear decay: ``(max_steps - s + 1) / (max_steps - warmup)``.

    The decay is that of ``get_linear_schedule_with_warmup`` of transformers, which counts updates
    from 0: the first update after the warm-up has the peak, and the factor would reach 0 one update
    after the last.

    >>> LinearDecay(100).factor(76), LinearDecay(100).factor(100)
    (0.25, 0.01)
    """

    def decay(self, done: int, steps: int) -> float:
        return max(steps - done, 0) / steps


@register("schedule", "cosine", paper="arXiv:1608.03983, eq. 5")
class Cosine(Decay):
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); after ``warmup`` updates
    half a cosine: ``(1 + cos(pi t)) / 2`` with ``t = (s - 1 - warmup) / (max_steps - warmup)``.

    The decay is that of ``get_cosine_schedule_with_warmup`` of transformers, which counts updates
    from 0: the first update after the warm-up has the peak, and the factor would reach 0 one update
    after the last. Training with fewer updates than ``warmup`` does not reach the peak.

    >>> round(Cosine(100).factor(51), 12)
    0.5
    """

    def decay(self, done: int, steps: int) -> float:
        # = (1 + cos(pi t)) / 2 with t = done / steps, without cancellation near t = 1
        return math.cos(math.pi * min(done / steps, 1.0) / 2) ** 2
