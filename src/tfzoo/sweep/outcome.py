"""The tests of one comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tfzoo.sweep.paired import ALPHA, Interval

Mode = Literal["min", "max"]
"""Whether a lower or a higher score is better."""


@dataclass(frozen=True)
class Outcome:
    """Interval and p of no difference, and p of a difference within the margin (None without one),
    both also after Holm's correction for all comparisons of the metric.
    """

    test: Interval
    p_corrected: float
    p_equivalent: float | None
    p_equivalent_corrected: float | None

    @property
    def is_equivalent(self) -> bool:
        """Whether the difference was shown to lie within the margin."""
        return self.p_equivalent_corrected is not None and self.p_equivalent_corrected < ALPHA

    def direction(self, mode: Mode) -> Literal["better", "worse"]:
        """On which side of the baseline the mean lies."""
        return "better" if (self.test.mean < 0) == (mode == "min") else "worse"
