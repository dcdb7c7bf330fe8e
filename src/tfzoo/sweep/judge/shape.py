"""What a comparison's scores show that a t test does not allow for."""

from __future__ import annotations

from tfzoo.sweep.judge.effects import Comparison
from tfzoo.sweep.judge.paired import EQUAL

RARE = 0.01
"""How rarely scores of normal noise are called skewed, or one of them an outlier."""
FEWEST = 8
"""The seeds from which skewness can be told."""
LEVELS = {"skewed": "9", "outlier": "23", "discrete": "8"}
"""Measured false verdicts in percent, at 3 to 10 seeds: ``python -m benchmarks.judging``."""


def shape(one: Comparison) -> list[str]:
    """Notes: an outlier among the differences, differences that are skewed, or of few values."""
    import numpy as np
    from scipy.special import stdtr
    from scipy.stats import skewtest

    d, n = np.array(one.differences), len(one.differences)
    notes = []
    if len(np.unique(np.round(d / (EQUAL * one.scale)))) <= (n + 1) // 2:
        notes.append(f"differences of few values{level('discrete')}")
    # Grubbs (1950): the t statistic of each value against the others
    rest = [np.delete(d, i) for i in range(n)]
    error = np.array([part.std(ddof=1) for part in rest]) * (1 + 1 / (n - 1)) ** 0.5
    away = np.abs(d - [part.mean() for part in rest]) / np.maximum(error, EQUAL * one.scale)
    if 2 * stdtr(n - 2, -away.max()) * n < RARE:
        notes.append(f"seed {one.pairs[away.argmax()]} is an outlier{level('outlier')}")
    elif n >= FEWEST and skewtest(d).pvalue < RARE:
        notes.append(f"skewed differences{level('skewed')}")
    return notes


def level(what: str) -> str:
    """What is measured of such scores."""
    return f": of such scores a t test is wrong in up to {LEVELS[what]} % of sweeps, not in 5"
