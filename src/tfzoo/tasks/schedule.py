"""What a learning-rate schedule promises."""

from __future__ import annotations

from typing import Protocol


class Schedule(Protocol):
    """A factor of the peak learning rate, at most 1, for each update; the first update is 1."""

    def factor(self, update: int) -> float: ...
