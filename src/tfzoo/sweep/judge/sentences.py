"""The sentences of a report: the verdict of each comparison with its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from tfzoo.sweep.judge.design import Design
from tfzoo.sweep.judge.effects import Comparison
from tfzoo.sweep.judge.paired import (
    ALPHA,
    CLEAR,
    MAX_SEEDS,
    Mode,
    Outcome,
    detectable,
    seeds_needed,
)
from tfzoo.sweep.judge.sequential import FIRST

MIN_EFFECT = 0.01
"""Part of the baseline's mean. A smaller difference is not worth more seeds."""


def tested(
    one: Comparison, verdict: str, outcome: Outcome, comparisons: int, mode: Mode, design: Design
) -> str:
    """The sentence of a comparison that has a test."""
    test, corrected = outcome.test, outcome.p_corrected
    mean, low, high, p = (float(value) for value in (test.mean, test.low, test.high, test.p))
    significance = format_corrected(corrected, comparisons)
    estimate = f"difference {format_estimate(mean, low, high)}"
    margin = design.margin.describe(one.against) if design.margin else ""
    if verdict in ("better", "worse"):
        ends = sorted((abs(low), abs(high)))  # both have the same sign, as p is below 5 %
        size = format_estimate(abs(mean), *ends)
        within = f"; by less than the margin of {margin}" if outcome.is_equivalent else ""
        said = f"{hint(corrected)}{verdict} than {one.against}"
        return f"{one.name}: {said} by {size}, {significance}{within}"
    if verdict == "equivalent":
        shown = outcome.p_equivalent_corrected or 0.0
        said = f"{hint(shown)}equivalent to {one.against} within {margin}"
        return f"{one.name}: {said}: {estimate}, {format_corrected(shown, comparisons)}"
    question = f"{one.name}: not yet known whether it differs from {one.against}"
    if why := design.why_no_verdict(*one.sample):
        said = f", a hint that it is {outcome.direction(mode)}" if corrected < ALPHA else ""
        return f"{question}, because {why}: {estimate}, {significance}{said}"
    by = f" by {margin}" if margin else ""
    return (
        f"{question}{by}, with {len(one.pairs)} seeds: {estimate}, {significance}"
        f"{more_seeds(one, comparisons, design)}{uncorrected_interval(low, high, p)}"
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


def more_seeds(one: Comparison, comparisons: int, design: Design) -> str:
    """How many seeds would decide: between a difference and equivalence if there is a margin, else
    whether there is the observed difference, or 1 % of the baseline's mean if that is larger.
    """
    observed, spread = abs(fmean(one.differences)), stdev(one.differences)
    if design.margin:
        margin = fmean(design.margins(one))
        sizes = [size for size in (observed, margin - observed) if size > 0]
        effect = "would decide, if the difference is as large as it seems"
    else:
        least = MIN_EFFECT * abs(fmean(one.base[seed] for seed in one.pairs))
        sizes = [max(observed, least)]
        which = (
            "this one" if observed >= least else f"{MIN_EFFECT * 100:g} % of {one.against}'s mean"
        )
        effect = f"would detect a difference of {format_size(sizes[0])} ({which})"
    found = [seeds_needed(size, spread, comparisons, design.most) for size in sizes if size]
    if not found:
        return ""
    counts = [count for count in found if count is not None]
    if not counts:
        return f"; more than {design.most or MAX_SEEDS:,} seeds {effect}"
    if not design.margin and min(counts) <= len(one.pairs):
        return f"; {effect.replace('would detect ', '')} would have been detected"
    return f"; about {max(min(counts), len(one.pairs) + 1)} seeds {effect}"


def smallest_effect(tested: Sequence[Comparison], comparisons: int, design: Design) -> str:
    """The smallest difference that most comparisons would have detected, and how many seeds 1 % of
    the baseline's mean would take; ``""`` without a test.
    """
    if not tested:
        return ""
    sizes = sorted(
        detectable(len(one.pairs), comparisons, design.most) * stdev(one.differences)
        for one in tested
    )
    seeds = round(median(len(one.pairs) for one in tested))
    mean = abs(median(fmean(one.base[seed] for seed in one.pairs) for one in tested))
    size, spread = median(sizes), median(stdev(one.differences) for one in tested)
    if mean and size > mean:
        return f"{seeds} seeds detect no difference smaller than the baseline's mean"
    share = f" ({format_size(100 * size / mean)} % of the baseline's mean)" if mean else ""
    between = (
        f", from {format_size(sizes[0])} to {format_size(sizes[-1])} by comparison"
        if len(sizes) > 1
        else ""
    )
    text = f"{seeds} seeds detect a difference of {format_size(size)}{share}{between}"
    if not mean or size <= MIN_EFFECT * mean:
        return text
    needed = seeds_needed(MIN_EFFECT * mean, spread, comparisons, design.most)
    count = f"about {needed}" if needed else f"more than {design.most or MAX_SEEDS:,}"
    return f"{text}; {MIN_EFFECT * 100:g} % takes {count} seeds"


def untested(one: Comparison) -> str:
    """The sentence of a comparison without a test: the baseline, too few seeds, or no variance."""
    if one.is_baseline:
        return f"{one.name}: the baseline"
    if one.pruned:
        return f"{one.name}: not judged: {one.pruned}"
    if one.diverged[0] and not one.own:
        return f"{one.name}: not judged: all its runs diverged"
    if not one.own or not one.base:
        missing = f"{one.against} has " if one.own else ""
        return f"{one.name}: not judged: {missing}no completed run with a score"
    count, other = len(one.pairs), one.against
    if not count:
        return f"{one.name}: not judged: no seed in common with {other}"
    if count < FIRST:
        effect = f"{fmean(one.differences):+.3g} with {count} seed{'s' * (count != 1)}"
        question = f"{one.name}: not yet known whether it differs from {other}"
        return f"{question}: {effect}; a verdict needs {FIRST}"
    no_test = "the differences have no variance, so there is no test"
    if one.is_same:
        return f"{one.name}: equal to {other} with each of {count} seeds; {no_test}"
    difference = f"differs from {other} by {fmean(one.differences):+.4g}"
    return f"{one.name}: not judged: {difference} with each of {count} seeds; {no_test}"


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


def format_corrected(p: float, comparisons: int) -> str:
    """A corrected p, with the number of comparisons."""
    if comparisons == 1:
        return format_p(p)
    return f"{format_p(p)} after Holm's correction for {comparisons} comparisons"


def format_size(size: float) -> str:
    """Two digits, and no exponent for a large number."""
    return f"{size:.2g}" if size < 99.5 else f"{size:,.0f}"
