"""Two settings compared seed by seed: the t test of Student (1908), Holm's correction (1979), and
how many seeds would do.

Everything works along the last axis, so that one sweep and a thousand simulated ones go through the
same lines.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

ALPHA = 0.05
"""How often a sweep in which nothing matters may call something better or worse; an interval misses
as often.
"""

POWER = 0.8
MOST_SEEDS = 1000
NODES = 10_000
"""Values of S that an average is taken over: it is then right to four decimals."""

SAME = 1e-6
"""Values that are this close, relative to the largest, are the same: runs compute in fp32."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean of ``n`` independent values with its 95 % interval, and the p of the t test against 0."""

    mean: Any
    low: Any
    high: Any
    p: Any


def interval(values: ArrayLike) -> Interval:
    """Student (1908): ``mean +- t(0.975, n - 1) sd / sqrt(n)`` and ``p = 2 P(T > |mean| sqrt(n) /
    sd)``, over ``(..., n)`` values.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> [round(float(value), 3) for value in (found.mean, found.low, found.high, found.p)]
    [2.0, -0.484, 4.484, 0.074]
    """
    from scipy.special import stdtr, stdtrit

    values = np.asarray(values, np.float64)
    mean, free = values.mean(-1), values.shape[-1] - 1
    error = values.std(-1, ddof=1) / values.shape[-1] ** 0.5
    reach = stdtrit(free, 1 - ALPHA / 2) * error
    return Interval(mean, mean - reach, mean + reach, 2 * stdtr(free, -np.abs(mean) / error))


def spreads(values: ArrayLike, scale: float) -> bool:
    """Whether values differ by more than rounding does in numbers as large as ``scale``."""
    return bool(np.ptp(np.asarray(values, np.float64)) > SAME * scale)


def holm(p: ArrayLike) -> Floats:
    """Holm (1979): the i-th smallest of m is multiplied by ``m - i + 1``, and none falls below a
    smaller one's; over ``(..., m)``.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, np.float64)
    order = np.argsort(p, -1)
    steps = np.take_along_axis(p, order, -1) * np.arange(p.shape[-1], 0, -1)
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, np.minimum(np.maximum.accumulate(steps, -1), 1.0), -1)
    return corrected


def power(size: float, spread: float, seeds: int, comparisons: int = 1) -> float:
    """How often ``seeds`` tell a true mean difference of ``size`` when differences have the
    standard deviation ``spread``.

    The noncentral t distribution, with ``n - 1`` degrees of freedom and noncentrality ``size
    sqrt(n) / spread``, beyond the value that
    Holm asks of the smallest of so many p: ``P(|Z + shift| > bar S)`` with a normal ``Z``, averaged
    over equally likely ``S``, the square roots of a chi-square over its degrees of freedom.
    (SciPy's own distribution is not a number in its far tails.)
    """
    from scipy.special import chdtri, ndtr, stdtrit

    free, shift = seeds - 1, abs(size) * seeds**0.5 / spread
    bar = -stdtrit(free, ALPHA / comparisons / 2) * np.sqrt(
        chdtri(free, (np.arange(NODES) + 0.5) / NODES) / free
    )
    return float(np.mean(ndtr(shift - bar) + ndtr(-shift - bar)))


def seeds_needed(size: float, spread: float, comparisons: int = 1) -> int | None:
    """The fewest seeds that tell a difference of ``size`` in four of five sweeps; None beyond
    1,000.
    """
    counts = range(2, MOST_SEEDS + 1)
    place = bisect_left(counts, POWER, key=lambda seeds: power(size, spread, seeds, comparisons))
    return counts[place] if place < len(counts) else None
