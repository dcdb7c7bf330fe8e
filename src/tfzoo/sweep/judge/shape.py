"""What a comparison's scores show that a t test does not allow for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tfzoo.sweep.judge.effects import Comparison
from tfzoo.sweep.judge.paired import EQUAL, t_statistic

RARE = 0.01
"""How rarely scores of normal noise are called skewed, or one of them an outlier."""
FEWEST = 8
"""The seeds from which skewness can be told."""
WRONG = "a t test is wrong in up to {} % of sweeps, not in 5"
"""As measured at 3, 5 and 10 seeds: ``python -m benchmarks.judging``."""


@dataclass(frozen=True)
class Shapes:
    """Whether at most half of the differences are different values, else one is an outlier (and
    which is furthest from the mean), else they are skewed.
    """

    discrete: NDArray[np.bool_]
    outlier: NDArray[np.bool_]
    furthest: NDArray[np.int64]
    skewed: NDArray[np.bool_]


def shapes(differences: ArrayLike, scale: ArrayLike) -> Shapes:
    """The shape of ``(..., n)`` differences of scores as large as ``scale``."""
    from scipy.special import stdtr
    from scipy.stats import skewtest

    d = np.asarray(differences, np.float64)
    n = d.shape[-1]
    steps = np.diff(np.sort(np.round(d / (EQUAL * np.asarray(scale)[..., None])), -1), axis=-1)
    mean, error, _ = t_statistic(d)
    # Grubbs (1950): the t statistic of each value against the others, from its distance to the mean
    # in standard errors
    away = np.abs(d - mean[..., None]) / error[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = away * np.sqrt((n - 2) / np.maximum((n - 1) ** 2 - away**2, 0.0))
    discrete = (steps > 0).sum(-1) < (n + 1) // 2
    outlier = (2 * n * stdtr(n - 2, -t.max(-1)) < RARE) & ~discrete
    skewed = skewtest(d, axis=-1).pvalue < RARE if n >= FEWEST else np.zeros_like(outlier)
    return Shapes(discrete, outlier, away.argmax(-1), skewed & ~outlier & ~discrete)


def shape(one: Comparison) -> list[str]:
    """Notes: an outlier among the differences, differences that are skewed, or of few values."""
    found = shapes(one.differences, one.scale)
    notes = {
        f"differences of few values: then {WRONG.format(12)}": found.discrete,
        f"seed {one.pairs[found.furthest]} is an outlier: if one side alone has rare bad runs, "
        f"{WRONG.format(8)}": found.outlier,
        f"skewed differences: if one side alone is skewed, {WRONG.format(10)}": found.skewed,
    }
    return [note for note, holds in notes.items() if holds]
