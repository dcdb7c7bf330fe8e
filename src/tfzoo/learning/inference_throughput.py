"""Throughput of inference in validation and test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import torch


class InferenceThroughput:
    """Items per second. Translation counts generated tokens, EOS included; classification counts
    texts.

    >>> throughput = InferenceThroughput()
    >>> with throughput.timed(torch.device("cpu"), items=12):
    ...     pass
    >>> throughput.per_second > 0
    True
    """

    def __init__(self) -> None:
        self.items = 0
        self.seconds = 0.0

    @contextmanager
    def timed(self, device: torch.device, items: int = 0) -> Iterator[None]:
        """Add the duration of the ``with`` block, and the items that it infers, where that is known
        before. The device is synchronised at both ends.
        """
        synchronize(device)
        start = perf_counter()
        yield
        synchronize(device)
        self.seconds += perf_counter() - start
        self.items += items

    @property
    def per_second(self) -> float | None:
        """Items per second; None if nothing was timed."""
        return self.items / self.seconds if self.items and self.seconds else None


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
