"""The interface of a learning-rate schedule."""

from __future__ import annotations

from typing import Protocol


class Schedule(Protocol):
    """The learning rate of each update, as a factor of the peak: over 0 and at most 1 from update 1
    to the last.
    """

    def factor(self, update: int) -> float: ...
