"""The sentences of a report: the verdict of each comparison with its numbers, and notes on what its
scores show that a t test does not allow for.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median, median_low, stdev

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tfzoo.sweep.judge.design import UNDECLARED, Design
from tfzoo.sweep.judge.effects import Comparison
from tfzoo.sweep.judge.paired import (
    ALPHA,
    CLEAR,
    EQUAL,
    MAX_SEEDS,
    POWER,
    Outcome,
    detectable,
    has_variance,
    seeds_needed,
    t_statistic,
)

MIN_EFFECT = 0.01
"""Part of the baseline's mean. A smaller difference is not worth more seeds."""
RARE = 0.01
"""How rarely scores of normal noise are called skewed, or one of them an outlier."""
FEWEST = 8
"""The seeds from which skewness can be told."""
WRONG = "a t test is wrong in up to {} % of sweeps, not in 5"
"""As measured at 3, 5 and 10 seeds: ``python -m benchmarks.judging``."""


def tested(
    one: Comparison, verdict: str, outcome: Outcome, comparisons: int, why: str, design: Design
) -> str:
    """The sentence of a comparison that has a test; ``why`` it has no verdict, if it is that."""
    test, corrected = outcome.test, outcome.p_corrected
    margin = design.margin.describe(one.against) if design.margin else ""
    after = ""
    if outcome.p_permutation < 1:
        after = f" (permutation test: {format_p(outcome.p_permutation)})"
    if one.diverged and verdict != "not yet known":
        after += f"; so it is without the {one.diverged}"
    if verdict in ("better", "worse"):
        low, high = sorted(float(test.sign * end) for end in (test.low, test.high))
        size = format_estimate(float(test.sign * test.mean), low, high)
        within = f"; by less than the margin of {margin}" * (outcome.p_equivalent_corrected < ALPHA)
        said = f"{hint(corrected)}{verdict} than {one.against}"
        significance = format_corrected(corrected, comparisons, design)
        return f"{one.name}: {said} by {size}, {significance}{after}{within}"
    if verdict == "equivalent":
        shown = outcome.p_equivalent_corrected
        said = f"{hint(shown)}equivalent to {one.against} within {margin}"
        return f"{one.name}: {said}: {numbers(outcome, comparisons, design, shown)}{after}"
    question = f"{one.name}: not yet known whether it differs from {one.against}"
    if why:
        return f"{question}, because {why}: {numbers(outcome, comparisons, design)}"
    by = f" by {margin}" if margin else ""
    said = f"{question}{by}, with {len(one.pairs)} seeds"
    return f"{said}: {numbers(outcome, comparisons, design)}{after}"


def numbers(outcome: Outcome, comparisons: int, design: Design, p: float | None = None) -> str:
    """``difference 0.01 (95 % CI -0.20 to 0.20), p = 1 after ...``."""
    test = outcome.test
    estimate = format_estimate(float(test.mean), float(test.low), float(test.high))
    corrected = format_corrected(outcome.p_corrected if p is None else p, comparisons, design)
    return f"difference {estimate}, {corrected}"


def depends(
    one: Comparison,
    outcome: Outcome | None,
    other: Outcome | None,
    comparisons: int,
    design: Design,
) -> str:
    """The sentence of a comparison whose verdict would be another without the diverged runs."""
    every, without = (
        "no test" if found is None else numbers(found, comparisons, design)
        for found in (outcome, other)
    )
    return (
        f"{one.name}: not yet known whether it differs from {one.against}: it depends on the "
        f"{one.diverged}. With all runs {every}; without them {without}"
    )


def hint(corrected: float) -> str:
    """``a hint: `` if the corrected p of a verdict is not clearly below 5 %."""
    return "a hint: " if CLEAR <= corrected < ALPHA else ""


def smallest_effect(tested: Sequence[Comparison], comparisons: int, design: Design) -> str:
    """The difference that the middle comparison would have detected, and how many seeds detect the
    margin, or 1 % of the baseline's mean, with a probability of 0.8; ``""`` without a test.
    """
    if not tested:
        return ""
    seeds = median_low(len(one.pairs) for one in tested)
    spread = median(stdev(one.differences) for one in tested)
    mean = abs(median(fmean(one.base.values()) for one in tested))
    size = detectable(seeds, comparisons, design.looks) * spread
    share = f" ({format_size(100 * size / mean)} % of the baseline's mean)" if mean else ""
    text = f"{seeds} seeds detect a difference of {format_size(size)}{share}"
    wanted = MIN_EFFECT * mean
    if design.margin:
        wanted = median(fmean(design.margins(one)) for one in tested)
    if not wanted or size <= wanted:
        return text
    needed = seeds_needed(wanted, spread, comparisons, design.looks, seeds - 1)
    most = design.looks[-1] if design.looks else MAX_SEEDS
    count = f"about {needed:,}" if needed else f"more than {most:,}"
    which = "the margin" if design.margin else f"{MIN_EFFECT * 100:g} %"
    chance = f"with a chance of {100 * POWER:.0f} %"
    return f"{text}; {count} detect {format_size(wanted)} ({which}) {chance}"


def signed(value: float) -> str:
    """``+0.12``."""
    return f"{'-' if value < 0 else '+'}{format_size(abs(value))}"


def untested(one: Comparison) -> str:
    """The sentence of a comparison without a test: the baseline, too few seeds, or no variance."""
    if one.is_baseline:
        return f"{one.name}: the baseline"
    count = len(one.pairs)
    if not count:
        return f"{one.name}: not judged: no seed has a score of it and of {one.against}"
    effect = f"{fmean(one.differences):+.4g} with {count} seed{'s' * (count > 1)}"
    if count < one.fewest:
        question = f"{one.name}: not yet known whether it differs from {one.against}"
        return f"{question}: {effect}; a verdict needs {one.fewest}"
    said = f"differs from {one.against} by {effect}"
    if not has_variance([0.0, *one.differences], one.scale):
        said = f"equals {one.against} with {count} seeds"
    return f"{one.name}: not judged: it {said}; differences without a variance have no test"


def format_estimate(value: float, low: float, high: float) -> str:
    """A number with its 95 % confidence interval, rounded by :func:`decimals`."""
    digits = decimals(low, high)
    # Adding 0.0 turns -0.0 into 0.0.
    return "{} (95 % CI {} to {})".format(
        *(f"{round(number, digits) + 0.0:,.{digits}f}" for number in (value, low, high))
    )


def decimals(low: float, high: float) -> int:
    """The number of decimals at which half the width of an interval has two digits, or more if it
    excludes 0 and would be rounded to one that touches it. Sentences, tables and pictures share it.
    """
    half = (high - low) / 2
    digits = max(0, 1 - math.floor(math.log10(half))) if half > 0 else 3
    if low * high > 0:
        digits = max(digits, -math.floor(math.log10(min(abs(low), abs(high)))))
    return digits


def format_p(p: float) -> str:
    """``p = 0.03``; a p below 5 % is never rounded to 5 % or more, nor one above to less."""
    if p < 0.001:
        return "p < 0.001"
    text = f"{p:.2g}"
    return f"p = {text}" if (float(text) < ALPHA) == (p < ALPHA) else f"p < {ALPHA}"


def format_corrected(p: float, comparisons: int, design: Design = UNDECLARED) -> str:
    """A corrected p, with the number of comparisons: that of a t test, or of declared looks a
    sequential one.
    """
    text = f"{'sequential ' * bool(design.looks)}{format_p(p)}"
    if comparisons == 1:
        return text
    return f"{text} after Holm's correction for {comparisons} comparisons"


def format_size(size: float) -> str:
    """Two digits, and no exponent for a large number."""
    return f"{size:.2g}" if size < 99.5 else f"{size:,.0f}"


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
