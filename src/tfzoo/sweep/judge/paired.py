"""Paired comparisons: Student's t test (1908), equivalence, Holm's correction (1979), and power.

All functions work along the last axis, so that one sweep and a thousand simulated ones can be
computed in the same way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tfzoo.sweep.judge import sequential

ALPHA = 0.05
"""The family-wise error rate of the verdicts on one metric, and 1 - coverage of each interval."""

CLEAR = 0.01
"""A verdict whose corrected p is not below this is a hint: one such in twenty sweeps is chance."""

POWER = 0.8
MAX_SEEDS = 1000
NODES = 10_000
"""Quadrature points over the chi distribution; the result is then right to four decimals, and so
it is with a tenth of them from 50 degrees of freedom on, where the distribution is narrow.
"""

EQUAL = 1e-6
"""Values closer than this, relative to the largest, count as equal: runs compute in fp32."""

Floats = NDArray[np.float64]
Mode = Literal["min", "max"]
"""Whether a lower or a higher score is better."""


@dataclass(frozen=True)
class Interval:
    """The mean of ``n`` independent values, its 95 % confidence interval, and p of the t test of
    mean 0.
    """

    mean: Any
    low: Any
    high: Any
    p: Any


@dataclass(frozen=True)
class Outcome:
    """Interval and p of no difference, and p of a difference within the margin (None without one),
    both also after Holm's correction for all comparisons of the metric.
    """

    test: Interval
    p_corrected: float
    p_equivalent: float | None
    p_equivalent_corrected: float | None

    @property
    def is_equivalent(self) -> bool:
        """Whether the difference was shown to lie within the margin."""
        return self.p_equivalent_corrected is not None and self.p_equivalent_corrected < ALPHA

    def direction(self, mode: Mode) -> Literal["better", "worse"]:
        """On which side of the baseline the mean lies."""
        return "better" if (self.test.mean < 0) == (mode == "min") else "worse"


def interval(values: ArrayLike, alpha: float = ALPHA, most: int | None = None) -> Interval:
    """Student (1908): ``mean +- t(1 - alpha / 2, n - 1) sd / sqrt(n)`` and ``p = 2 P(T > |mean|
    sqrt(n) / sd)``, over ``(..., n)`` values. If the sample may grow to ``most`` values, all its
    intervals on the way together have the level, and p is
    :func:`tfzoo.sweep.judge.sequential.p_value`.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> [round(float(value), 3) for value in (found.mean, found.low, found.high, found.p)]
    [2.0, -0.484, 4.484, 0.074]
    """
    from scipy.special import stdtr

    values = np.asarray(values, np.float64)
    mean, count = values.mean(-1), values.shape[-1]
    error = values.std(-1, ddof=1) / count**0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        t = mean / error
    reach = critical(alpha, count, most) * error
    grows = is_growing(count, most)
    p = sequential.p_value(t, count, most or count) if grows else 2 * stdtr(count - 1, -np.abs(t))
    return Interval(mean, mean - reach, mean + reach, p)


def critical(alpha: float, seeds: int, most: int | None = None) -> float:
    """How large t must be for a level of ``alpha``."""
    from scipy.special import stdtrit

    if most is not None and is_growing(seeds, most):
        return sequential.critical(alpha, seeds, most)
    return float(stdtrit(seeds - 1, 1 - alpha / 2))


def is_growing(seeds: int, most: int | None) -> bool:
    """Whether ``seeds`` are on the declared way to ``most``."""
    return most is not None and sequential.FIRST <= seeds <= most


def equivalence(values: ArrayLike, margin: ArrayLike, most: int | None = None) -> Floats:
    """p of the two one-sided tests (Schuirmann 1987) that the mean of ``(..., n)`` values lies
    within ``margin`` of 0, which is one number or one for each value: the larger of their p.
    """
    values, margin = np.asarray(values, np.float64), np.asarray(margin, np.float64)
    sides = (interval(values + margin, most=most), interval(margin - values, most=most))
    above, below = (np.where(one.mean > 0, one.p / 2, 1 - one.p / 2) for one in sides)
    return np.asarray(np.maximum(above, below), np.float64)


def has_variance(values: ArrayLike, scale: float) -> bool:
    """Whether values differ by more than the rounding of fp32 numbers as large as ``scale``."""
    return bool(np.ptp(np.asarray(values, np.float64)) > EQUAL * scale)


def holm(p: ArrayLike) -> Floats:
    """Holm (1979): the i-th smallest of m p values is multiplied by ``m - i + 1``, then made at
    least as large as the one before; over ``(..., m)``. Verdicts by the result at 5 % have a
    family-wise error rate of at most 5 %.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, np.float64)
    order = np.argsort(p, -1)
    steps = np.take_along_axis(p, order, -1) * np.arange(p.shape[-1], 0, -1)
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, np.minimum(np.maximum.accumulate(steps, -1), 1.0), -1)
    return corrected


def correct(p: Sequence[float], untested: int = 0) -> list[float]:
    """:func:`holm` for ``p`` and for ``untested`` comparisons more that were planned, and pruned or
    not finished: each counts as if its p were 1.
    """
    corrected: list[float] = holm([*p, *[1.0] * untested])[: len(p)].tolist()
    return corrected


def selected_level(tested: int, untested: int) -> float:
    """The level of each interval if so many of the planned comparisons were pruned (Benjamini and
    Yekutieli 2005): those that are left were selected.
    """
    return ALPHA * tested / (tested + untested) if tested else ALPHA


def power(
    size: float, spread: float, seeds: int, comparisons: int = 1, most: int | None = None
) -> float:
    """The probability of detecting a true mean difference of ``size`` if the differences have the
    standard deviation ``spread``, at the level that Holm requires of the smallest p.

    ``P(|T| > t(1 - alpha / (2 comparisons), n - 1))`` for a noncentral t variable with ``n - 1``
    degrees of freedom and noncentrality ``size sqrt(n) / spread``, computed as the mean of
    ``P(|Z + shift| > bar S)`` over quantiles of ``S``, the square root of a chi-square variable
    over its degrees of freedom. SciPy's noncentral t is NaN in its far tails.
    """
    from scipy.special import ndtr

    free, shift = seeds - 1, abs(size) * seeds**0.5 / spread
    bar = critical(ALPHA / comparisons, seeds, most) * chi_quantiles(free)
    return float(np.mean(ndtr(shift - bar) + ndtr(-shift - bar)))


@lru_cache(maxsize=128)
def chi_quantiles(free: int) -> Floats:
    """Equally likely values of the square root of a chi-square variable over its degrees of
    freedom.
    """
    from scipy.special import chdtri

    nodes = NODES if free < 50 else NODES // 10
    found: Floats = np.sqrt(chdtri(free, (np.arange(nodes) + 0.5) / nodes) / free)
    return found


def seeds_needed(
    size: float, spread: float, comparisons: int = 1, most: int | None = None
) -> int | None:
    """The smallest number of seeds with a power of 0.8 for a difference of ``size``; None if it is
    more than ``most``, or than 1,000 if the sample is not declared to grow.
    """
    counts = range(sequential.FIRST, (most or MAX_SEEDS) + 1)
    index = bisect_left(
        counts, POWER, key=lambda seeds: power(size, spread, seeds, comparisons, most)
    )
    return counts[index] if index < len(counts) else None


@lru_cache(maxsize=128)
def detectable(seeds: int, comparisons: int = 1, most: int | None = None) -> float:
    """The smallest true mean difference with a :func:`power` of 0.8, in standard deviations of the
    differences.

    >>> round(detectable(5), 2), round(detectable(10, 4), 2)
    (1.68, 1.28)
    """
    steps = range(10**9)  # of a ten-thousandth
    found = bisect_left(
        steps, POWER, key=lambda step: power(step / 10_000, 1.0, seeds, comparisons, most)
    )
    return found / 10_000
