"""The sentences of a report: the verdict of each comparison with its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from tfzoo.sweep.effects import Comparison
from tfzoo.sweep.paired import ALPHA, CLEAR, MAX_SEEDS, Interval, detectable, seeds_needed

MIN_EFFECT = 0.01
"""Part of the baseline's mean. A smaller difference is not worth more seeds."""


def tested(
    one: Comparison, verdict: str, test: Interval, corrected: float, comparisons: int
) -> str:
    """The sentence of a comparison that has a test."""
    mean, low, high, p = (float(value) for value in (test.mean, test.low, test.high, test.p))
    significance = format_corrected(corrected, comparisons)
    if verdict != "not distinguishable":
        ends = sorted((abs(low), abs(high)))  # both have the same sign, as p is below 5 %
        size = format_estimate(abs(mean), *ends)
        said = f"{hint(corrected)}{verdict} than {one.against}"
        return f"{one.name}: {said} by {size}, {significance}"
    return (
        f"{one.name}: not distinguishable from {one.against} with {len(one.pairs)} seeds: "
        f"difference {format_estimate(mean, low, high)}, {significance}"
        f"{more_seeds(one, comparisons)}{uncorrected_interval(low, high, p)}"
    )


def hint(corrected: float) -> str:
    """``a hint: `` if the corrected p of a verdict is not clearly below 5 %."""
    return "a hint: " if CLEAR <= corrected < ALPHA else ""


def uncorrected_interval(low: float, high: float, p: float) -> str:
    """Why the interval of a difference that is not significant can exclude 0; ``""`` if it does
    not.
    """
    if low <= 0 <= high:
        return ""
    return (
        ". The interval excludes 0 because it is not corrected for the number of comparisons; "
        f"the verdict is (uncorrected {format_p(p)})"
    )


def more_seeds(one: Comparison, comparisons: int) -> str:
    """How many seeds would detect the observed difference, or 1 % of the baseline's mean if that is
    larger.
    """
    observed = abs(fmean(one.differences))
    least = MIN_EFFECT * abs(fmean(one.base[seed] for seed in one.pairs))
    size = max(observed, least)
    if not size:
        return ""
    which = "this one" if observed >= least else f"{MIN_EFFECT * 100:g} % of {one.against}'s mean"
    effect = f"a difference of {format_size(size)} ({which})"
    seeds = seeds_needed(size, stdev(one.differences), comparisons)
    if seeds is None:
        return f"; more than {MAX_SEEDS:,} seeds would be needed to detect {effect}"
    if seeds <= len(one.pairs):
        return f"; {effect} would have been detected"
    return f"; about {seeds} seeds would detect {effect}"


def smallest_effect(tested: Sequence[Comparison], comparisons: int) -> str:
    """The smallest difference that most comparisons would have detected, and how many seeds 1 % of
    the baseline's mean would take; ``""`` without a test.
    """
    if not tested:
        return ""
    sizes = sorted(
        detectable(len(one.pairs), comparisons) * stdev(one.differences) for one in tested
    )
    seeds = round(median(len(one.pairs) for one in tested))
    mean = abs(median(fmean(one.base[seed] for seed in one.pairs) for one in tested))
    size, spread = median(sizes), median(stdev(one.differences) for one in tested)
    share = f" ({format_size(100 * size / mean)} % of the baseline's mean)" if mean else ""
    between = (
        f", from {format_size(sizes[0])} to {format_size(sizes[-1])} by comparison"
        if len(sizes) > 1
        else ""
    )
    text = f"{seeds} seeds detect a difference of {format_size(size)}{share}{between}"
    if not mean or size <= MIN_EFFECT * mean:
        return text
    needed = seeds_needed(MIN_EFFECT * mean, spread, comparisons)
    count = f"about {needed}" if needed else f"more than {MAX_SEEDS:,}"
    return f"{text}; {MIN_EFFECT * 100:g} % takes {count} seeds"


def untested(one: Comparison) -> str:
    """The sentence of a comparison without a test: the baseline, too few seeds, or no variance."""
    if one.is_baseline:
        return f"{one.name}: the baseline"
    if one.pruned:
        return f"{one.name}: not judged: {one.pruned}"
    if not one.own or not one.base:
        missing = f"{one.against} has " if one.own else ""
        return f"{one.name}: not judged: {missing}no completed run with a score"
    count, other = len(one.pairs), one.against
    if count < 2:
        common = f"{count} seed{'s' * (count != 1)} in common with {other}"
        return f"{one.name}: not judged: {common}, a test needs 2"
    no_test = "the differences have no variance, so there is no test"
    if one.is_same:
        return f"{one.name}: equal to {other} with each of {count} seeds; {no_test}"
    difference = f"differs from {other} by {fmean(one.differences):+.4g}"
    return f"{one.name}: not judged: {difference} with each of {count} seeds; {no_test}"


def format_estimate(value: float, low: float, high: float) -> str:
    """A number with its 95 % confidence interval, rounded by the width of the interval. One that
    excludes 0 is not rounded to one that touches it.
    """
    half = (high - low) / 2
    digits = max(0, -math.floor(math.log10(half / 3))) if half > 0 else 3
    if low * high > 0:
        digits = max(digits, -math.floor(math.log10(min(abs(low), abs(high)))))
    # Adding 0.0 turns -0.0 into 0.0.
    return "{} (95 % CI {} to {})".format(
        *(f"{round(number, digits) + 0.0:,.{digits}f}" for number in (value, low, high))
    )


def format_p(p: float) -> str:
    """``p = 0.03``; a p below 5 % is never rounded to 5 % or more, nor one above to less."""
    if p < 0.001:
        return "p < 0.001"
    text = f"{p:.2g}"
    return f"p = {text}" if (float(text) < ALPHA) == (p < ALPHA) else f"p < {ALPHA}"


def format_corrected(p: float, comparisons: int) -> str:
    """A corrected p, with the number of comparisons."""
    if comparisons == 1:
        return format_p(p)
    return f"{format_p(p)} after Holm's correction for {comparisons} comparisons"


def format_size(size: float) -> str:
    """Two digits, and no exponent for a large number."""
    return f"{size:.2g}" if size < 99.5 else f"{size:,.0f}"
