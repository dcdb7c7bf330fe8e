"""The scores of a data set, computed from columns that have a row for each text, and how fast it
was scored.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

DRAWS = 500
COVERAGE = 0.95


class Scores:
    """What a task counts of a data set: the sum of losses and of the weights to divide it by, and
    columns with a row for each text, in float64 or whole numbers on the CPU.
    """

    def __init__(self) -> None:
        self.sums = torch.zeros(2, dtype=torch.float64)
        self.batches: list[list[Tensor]] = []

    def add(
        self, index: Sequence[int], loss: Tensor, weight: Tensor | float, *columns: Tensor
    ) -> None:
        """Add a batch: the rows of its texts in their data set; losses and their weights, of any
        shape; and columns ``(b ...)``.
        """
        self.sums += torch.stack([on_cpu(loss).double().sum(), on_cpu(weight).double().sum()])
        self.batches.append([on_cpu(index), *map(on_cpu, columns)])

    @cached_property
    def gathered(self) -> tuple[Tensor, list[Tensor]]:
        """The sums and the columns of all processes, after the last :meth:`add`, in the order of
        the data set. Every process must ask for it.
        """
        every: list[Any] = [(self.sums, self.batches)]
        if distributed.is_available() and distributed.is_initialized():
            every = every * distributed.get_world_size()
            distributed.all_gather_object(every, (self.sums, self.batches))
        batches = [batch for _, held in every for batch in held]
        index, *columns = map(torch.cat, zip(*batches, strict=True)) if batches else [on_cpu([])]
        order = index.argsort(stable=True)
        return sum(sums for sums, _ in every), [column[order] for column in (index, *columns)]

    @property
    def columns(self) -> list[Tensor]:
        """The columns of all texts."""
        return self.gathered[1][1:]

    def __len__(self) -> int:
        return len(self.gathered[1][0])

    def compute(self, task: Any) -> dict[str, Tensor]:
        """The mean ``loss``, and what ``task.compute_scores`` makes of the columns: of a share of
        texts, which it gives as whether each counts, the mean.
        """
        loss, weight = self.gathered[0]
        found = task.compute_scores(*self.columns) if self.columns else {}
        return {"loss": loss / weight} | {
            name: percent(task, name) * value.double().mean() for name, value in found.items()
        }

    def intervals(self, task: Any) -> dict[str, tuple[float, float]]:
        """How far each score would be from this one on other texts of the same kind, with 95 %
        coverage: of a share of texts Wilson's interval (1927); of others what lies between these
        percentiles of the score of as many texts, drawn with replacement (percentile bootstrap;
        Efron and Tibshirani 1993, section 13.3). There are none of fewer than two texts.
        """
        from scipy.stats import binomtest

        n, columns = len(self), self.columns
        if n < 2:
            return {}
        found: dict[str, tuple[float, float]] = {}
        for name, value in task.compute_scores(*columns).items():
            if value.dtype == torch.bool:
                wilson = binomtest(int(value.sum()), n).proportion_ci(COVERAGE, "wilson")
                found[name] = percent(task, name) * wilson.low, percent(task, name) * wilson.high
        drawn = defaultdict(list)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of a drawn sample without variance
            for rows in torch.from_numpy(np.random.default_rng(0).integers(n, size=(DRAWS, n))):
                sample = task.compute_scores(*(column[rows] for column in columns))
                for name in sample.keys() - found.keys():
                    drawn[name].append(float(sample[name]))
        for name, values in drawn.items():
            low, high = np.quantile(values, ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
            if np.isfinite((low, high)).all():
                found[name] = float(low), float(high)
        return found


def percent(task: Any, name: str) -> int:
    """What a share is multiplied by."""
    return 100 if name in task.percentages.split() else 1


def on_cpu(values: Any) -> Tensor:
    """Values on the CPU, in float64 unless they are whole numbers or boolean."""
    held = torch.as_tensor(values).detach().cpu()
    return held.double() if held.is_floating_point() else held


def sums_by(owner: Tensor, rows: int, *values: Tensor) -> list[Tensor]:
    """The sums of the values that belong to each row, ``owner`` ``(t)``: ``(t) -> (b)`` each."""
    zeros = torch.zeros(rows, dtype=torch.float64)
    return [zeros.index_add(0, owner.cpu(), on_cpu(one).double()) for one in values]


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
