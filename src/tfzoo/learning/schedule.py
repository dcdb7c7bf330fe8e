"""The interface of a learning-rate schedule."""

from __future__ import annotations

from typing import Protocol


class Schedule(Protocol):
    """A factor of the peak learning rate for each update, counted from 1. It is over 0 and at most
    1 from the first update to the last.
    """

    def factor(self, update: int) -> float:
        """Learning rate of an update divided by the peak."""
        ...
