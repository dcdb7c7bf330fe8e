"""Throughput of inference while a task is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import torch


class InferenceThroughput:
    """Items per second: for translation the generated tokens, EOS included; for classification the
    classified texts.

    >>> throughput = InferenceThroughput()
    >>> with throughput.timed(torch.device("cpu")):
    ...     throughput.items += 12
    >>> throughput.per_second > 0
    True
    """

    def __init__(self) -> None:
        self.items = 0
        self.seconds = 0.0

    @contextmanager
    def timed(self, device: torch.device) -> Iterator[None]:
        """Count the seconds of the ``with`` block. An accelerator works asynchronously, so that its
        queue is drained before and after.
        """
        synchronize(device)
        start = perf_counter()
        yield
        synchronize(device)
        self.seconds += perf_counter() - start

    @property
    def per_second(self) -> float | None:
        """None if nothing was timed."""
        return self.items / self.seconds if self.items and self.seconds else None


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
