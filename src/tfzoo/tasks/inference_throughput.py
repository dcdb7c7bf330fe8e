"""How fast a task gives its answers while it is scored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import torch


class InferenceThroughput:
    """What was made and how long that took: of a translator the tokens that it wrote, with ends; of
    a classifier the labels that it gave.

    >>> pace = Pace()
    >>> with pace.timed(torch.device("cpu")):
    ...     pace.made += 12
    >>> pace.per_second > 0
    True
    """

    def __init__(self) -> None:
        self.made = 0
        self.seconds = 0.0

    @contextmanager
    def timed(self, device: torch.device) -> Iterator[None]:
        """Count the seconds of what is done inside, on an accelerator too, which works on after
        Python has gone on.
        """
        wait(device)
        begun = perf_counter()
        yield
        wait(device)
        self.seconds += perf_counter() - begun

    @property
    def per_second(self) -> float | None:
        """None where nothing was made."""
        return self.made / self.seconds if self.made and self.seconds else None


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
