"""What a comparison's scores show that a t test does not allow for."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tfzoo.sweep.judge.effects import Comparison
from tfzoo.sweep.judge.paired import EQUAL, t_statistic

RARE = 0.01
"""How rarely scores of normal noise are called skewed, or one of them an outlier."""
FEWEST = 8
"""The seeds from which skewness can be told."""
WRONG = "a t test is wrong in up to {} % of sweeps, not in 5"
"""As measured at 3, 5 and 10 seeds: ``python -m benchmarks.judging``."""


def shapes(differences: ArrayLike, scale: ArrayLike) -> dict[str, NDArray[np.bool_]]:
    """Which samples, of ``(..., n)`` differences of scores as large as ``scale``, are ``discrete``:
    at most half of their values differ; else hold an ``outlier``; else are ``skewed``.
    """
    d = np.asarray(differences, np.float64)
    n = d.shape[-1]
    steps = np.diff(np.sort(np.round(d / (EQUAL * np.asarray(scale)[..., None])), -1), axis=-1)
    discrete = (steps > 0).sum(-1) < (n + 1) // 2
    mean, error, _ = t_statistic(d)
    # Grubbs (1950): the t statistic of each value against the others, from its distance to the mean
    # in standard errors
    away = np.abs(d - mean[..., None]) / error[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = away * np.sqrt((n - 2) / np.maximum((n - 1) ** 2 - away**2, 0.0))
    outlier = (2 * n * scipy.special.stdtr(n - 2, -t.max(-1)) < RARE) & ~discrete
    p = scipy.stats.skewtest(d, axis=-1).pvalue if n >= FEWEST else np.ones_like(mean)
    return {"discrete": discrete, "outlier": outlier, "skewed": (p < RARE) & ~outlier & ~discrete}


def shape(one: Comparison) -> list[str]:
    """A note on what a comparison's differences are, if they are one of these."""
    d = np.array(one.differences)
    furthest = one.pairs[np.abs(d - d.mean()).argmax()]
    notes = {
        "discrete": f"differences of few values: then {WRONG.format(12)}",
        "outlier": f"seed {furthest} is an outlier: if one side alone has rare bad runs, "
        f"{WRONG.format(8)}",
        "skewed": f"skewed differences: if one side alone is skewed, {WRONG.format(10)}",
    }
    return [notes[kind] for kind, holds in shapes(d, one.scale).items() if holds]
