"""Paired comparisons: Student's t test (1908), equivalence, Holm's correction (1979), and power.

Functions of scores work along the last axis, so that one sweep and a thousand simulated ones can be
computed in the same way.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tfzoo.sweep.judge import sequential

ALPHA = 0.05
"""The family-wise error rate of the verdicts on one metric, and 1 - coverage of its intervals."""

CLEAR = 0.01
"""A verdict whose corrected p is not below this is a hint: one such in twenty sweeps is chance."""

POWER = 0.8
MAX_SEEDS = 1000
NODES = 10_000
"""Quadrature points over the chi distribution; the result is then right to four decimals, and so
it is with a tenth of them from 50 degrees of freedom on, where the distribution is narrow.
"""
SPREADS = 50
"""Standard deviations that stand for the unknown one, each as likely."""

EQUAL = 1e-6
"""Values closer than this, relative to the largest, count as equal: runs compute in fp32."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """The mean of ``n`` independent values, its confidence interval, and p of the t test of mean 0.
    ``sign`` is that of the mean at the look at which p was smallest.
    """

    mean: Any
    low: Any
    high: Any
    p: Any
    sign: Any


@dataclass(frozen=True)
class Outcome:
    """The tests of one comparison: interval and p of no difference; p of a difference within the
    margin, 1 without one; and p of the permutation test, 1 where it cannot decide. All but
    ``p_equivalent`` and that of ``test`` are after Holm's correction for all of the metric.
    """

    test: Interval
    p_equivalent: float
    p_corrected: float
    p_equivalent_corrected: float
    p_permutation: float


def interval(values: ArrayLike, alpha: float = ALPHA, looks: tuple[int, ...] = ()) -> Interval:
    """Student (1908): ``mean +- t(1 - alpha / 2, n - 1) sd / sqrt(n)`` and ``p = 2 P(T > |mean|
    sqrt(n) / sd)``, over ``(..., n)`` values. Of a sample with declared looks, of which the last so
    far is at ``n``, all intervals on the way together have the level, and p is the smallest
    :func:`tfzoo.sweep.judge.sequential.p_value` so far.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> [round(float(value), 3) for value in (found.mean, found.low, found.high, found.p)]
    [2.0, -0.484, 4.484, 0.074]
    """
    values = np.asarray(values, np.float64)
    mean, error, _ = t_statistic(values)
    reach = critical(alpha, values.shape[-1], looks) * error
    means, p = zip(*tests(values, looks), strict=True)
    at = np.argmin(p, 0)[None]
    best, sign = (np.take_along_axis(np.array(one), at, 0)[0] for one in (p, np.sign(means)))
    return Interval(mean, mean - reach, mean + reach, best, sign)


def tests(values: Floats, looks: tuple[int, ...]) -> Iterator[tuple[Floats, Floats]]:
    """The mean and p at each look so far; without declared looks, at the number of values."""
    count = values.shape[-1]
    for seeds in looks[: looks.index(count) + 1] if looks else (count,):
        mean, _, t = t_statistic(values[..., :seeds])
        alone = 2 * scipy.special.stdtr(seeds - 1, -np.abs(t))
        yield mean, sequential.p_value(t, seeds, looks) if looks else alone


def t_statistic(values: Floats) -> tuple[Floats, Floats, Floats]:
    """The mean over the last axis, its standard error, and their ratio."""
    mean = values.mean(-1)
    error = values.std(-1, ddof=1) / values.shape[-1] ** 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        return mean, error, mean / error


def critical(alpha: float, seeds: int, looks: tuple[int, ...] = ()) -> float:
    """How large t must be for a level of ``alpha``."""
    if looks:
        return sequential.critical(alpha, seeds, looks)
    return float(scipy.special.stdtrit(seeds - 1, 1 - alpha / 2))


def equivalence(values: ArrayLike, margin: ArrayLike, looks: tuple[int, ...] = ()) -> Floats:
    """p of the two one-sided tests (Schuirmann 1987) that the mean of ``(..., n)`` values lies
    within ``margin`` of 0, which is one number or one for each value: the larger of their p, the
    smallest so far where looks are declared.
    """
    values, margin = np.asarray(values, np.float64), np.asarray(margin, np.float64)
    found = [
        np.maximum(*(np.where(mean > 0, p / 2, 1 - p / 2) for mean, p in both))
        for both in zip(tests(values + margin, looks), tests(margin - values, looks), strict=True)
    ]
    return np.asarray(np.min(found, 0), np.float64)


def has_variance(values: ArrayLike, scale: ArrayLike) -> NDArray[np.bool_]:
    """Whether ``(..., n)`` values differ by more than the rounding of fp32 numbers as large as
    ``scale``.
    """
    return np.asarray(np.ptp(np.asarray(values, np.float64), -1) > EQUAL * np.asarray(scale))


def holm(p: ArrayLike) -> Floats:
    """Holm (1979): the i-th smallest of m p values is multiplied by ``m - i + 1``, then made at
    least as large as the one before; over ``(..., m)``. Verdicts by the result at 5 % have a
    family-wise error rate of at most 5 %. NaN is not counted, and stays.

    >>> holm([0.01, 0.04, np.nan, 0.03]).round(2).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    p = np.asarray(p, np.float64)
    order = np.argsort(p, -1)  # NaN comes last
    left = np.isfinite(p).sum(-1, keepdims=True) - np.arange(p.shape[-1])
    steps = np.take_along_axis(p, order, -1) * left
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, np.minimum(np.maximum.accumulate(steps, -1), 1.0), -1)
    return corrected


def answers(p: ArrayLike, p_equivalent: ArrayLike, sign: ArrayLike) -> Floats:
    """What corrected p values say of comparisons: the ``sign`` of the mean where there is a
    difference, else 0 where there is none that matters, NaN where neither is known.
    """
    alike = np.where(np.asarray(p_equivalent) < ALPHA, 0.0, np.nan)
    return np.where(np.asarray(p) < ALPHA, sign, alike)


def standing(every: ArrayLike, without: ArrayLike) -> Floats:
    """The :func:`answers` of all runs where they are also those without the runs that diverged."""
    return np.where(np.asarray(every) == np.asarray(without), every, np.nan)


def permutation(values: Sequence[float]) -> float:
    """p of the permutation test of mean 0 (Fisher 1935), which only assumes that each difference
    could as well have had the other sign: the share of sign changes whose mean is as far from 0.
    """
    found = scipy.stats.permutation_test(
        (values,),
        lambda x, axis: x.mean(axis),
        permutation_type="samples",
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def power(
    size: float,
    spread: float,
    seeds: int,
    comparisons: int = 1,
    looks: tuple[int, ...] = (),
    free: int | None = None,
) -> float:
    """The probability of detecting a true mean difference of ``size`` if the differences have the
    standard deviation ``spread``, at the level that Holm requires of the smallest p; if ``spread``
    was estimated with ``free`` degrees of freedom, the mean over what it may be.

    ``P(|T| > t(1 - alpha / (2 comparisons), n - 1))`` for a noncentral t variable with ``n - 1``
    degrees of freedom and noncentrality ``size sqrt(n) / spread``, computed as the mean of
    ``P(|Z + shift| > bar S)`` over quantiles of ``S``, the square root of a chi-square variable
    over its degrees of freedom. SciPy's noncentral t is NaN in its far tails, and nearer: its
    power of 3 seeds and 4 comparisons for 5 standard deviations.
    """
    around = np.ones(1) if free is None else 1 / chi_quantiles(free, SPREADS)
    shift = abs(size) * seeds**0.5 / (spread * around[:, None])
    nodes = NODES if seeds <= 50 and free is None else NODES // 10
    bar = critical(ALPHA / comparisons, seeds, looks) * chi_quantiles(seeds - 1, nodes)
    return float(np.mean(scipy.special.ndtr(shift - bar) + scipy.special.ndtr(-shift - bar)))


@lru_cache(maxsize=128)
def chi_quantiles(free: int, nodes: int) -> Floats:
    """Equally likely values of the square root of a chi-square variable over its degrees of
    freedom.
    """
    found: Floats = np.sqrt(scipy.special.chdtri(free, (np.arange(nodes) + 0.5) / nodes) / free)
    return found


def seeds_needed(
    size: float,
    spread: float,
    comparisons: int = 1,
    looks: tuple[int, ...] = (),
    free: int | None = None,
) -> int | None:
    """The smallest number of seeds with a power of 0.8 for a difference of ``size``; None if it is
    more than 1,000, or than the last of the declared looks.
    """
    counts = looks or range(sequential.FIRST, MAX_SEEDS + 1)
    index = bisect_left(
        counts, POWER, key=lambda seeds: power(size, spread, seeds, comparisons, looks, free)
    )
    return counts[index] if index < len(counts) else None


@lru_cache(maxsize=128)
def detectable(seeds: int, comparisons: int = 1, looks: tuple[int, ...] = ()) -> float:
    """The smallest true mean difference with a :func:`power` of 0.8, in standard deviations of the
    differences.

    >>> round(detectable(5), 2), round(detectable(10, 4), 2)
    (1.68, 1.28)
    """
    steps = range(10**9)  # of a ten-thousandth
    found = bisect_left(
        steps, POWER, key=lambda step: power(step / 10_000, 1.0, seeds, comparisons, looks)
    )
    return found / 10_000
