"""Intervals of scores: how far they would be from these on other texts of the same kind."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from tfzoo.learning.statistics import Mean

DRAWS = 500
COVERAGE = 0.95


class RowScores:
    """Scores that are sums and means over rows, one row for each text. A class of scores that
    derives from it adds its rows with :meth:`record`, and has intervals.

    ``kept`` is None, or a list to which each call's columns are added.
    """

    kept: list[tuple[Tensor, ...]] | None = None

    def add(self, *columns: Tensor) -> None:
        """Update the scores with the columns of ``b`` rows, ``(b ...)`` each."""
        raise NotImplementedError

    def compute(self) -> dict[str, Tensor]:
        """The scores by name."""
        raise NotImplementedError

    def record(self, *columns: Tensor) -> None:
        """:meth:`add`, and keep the columns if ``kept`` is a list."""
        self.add(*columns)
        if self.kept is not None:
            self.kept.append(columns)


class TextScores(nn.Module, RowScores):
    """The scores of a task that reads one text: beside others the mean ``loss``."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = Mean()

    def update(self, *columns: Any) -> None:
        """Add a batch: a column for each argument of :meth:`add`."""
        self.record(*columns)


def intervals(scores: nn.Module, draws: int = DRAWS) -> dict[str, tuple[float, float]]:
    """The interval of 95 % of each score of :class:`RowScores`: between these percentiles of the
    score of as many texts, drawn with replacement (percentile bootstrap; Efron and Tibshirani 1993,
    section 13.3). Scores that do not come from kept rows have none, as those of fewer than two
    texts.
    """
    found: dict[str, tuple[float, float]] = {}
    for part in scores.modules():
        if not (isinstance(part, RowScores) and part.kept):
            continue
        columns = [torch.cat(parts) for parts in zip(*part.kept, strict=True)]
        n, random, values = len(columns[0]), np.random.default_rng(0), defaultdict(list)
        blank = blank_of(part)
        for _ in range(draws if n > 1 else 0):
            rows = torch.from_numpy(random.integers(n, size=n)).to(columns[0].device)
            for name, value in scores_of_rows(blank, [column[rows] for column in columns]).items():
                values[name].append(float(value))
        tails = (1 - COVERAGE) / 2
        for name, drawn in values.items():
            low, high = np.quantile(drawn, (tails, 1 - tails))
            if np.isfinite((low, high)).all():
                found[name] = float(low), float(high)
    return found


def blank_of(scores: RowScores) -> Any:
    """A copy that keeps no rows."""
    kept, scores.kept = scores.kept, None
    try:
        return copy.deepcopy(scores)
    finally:
        scores.kept = kept


def scores_of_rows(blank: Any, columns: list[Tensor]) -> dict[str, Tensor]:
    """The scores of these rows alone."""
    for part in blank.modules():
        if isinstance(part, Metric):
            part.reset()
    blank.add(*columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # such as of a drawn sample without variance
        found: dict[str, Tensor] = blank.compute()
    return found
