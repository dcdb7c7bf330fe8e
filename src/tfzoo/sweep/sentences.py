"""Verdicts in plain English: how much better or worse, or how many seeds it would take to know."""

from __future__ import annotations

import math
from statistics import fmean, stdev

from tfzoo.sweep.effects import Comparison
from tfzoo.sweep.paired import ALPHA, MOST_SEEDS, Interval, seeds_needed

WORTH = 0.01
"""The least difference that is asked for when none as large was seen: this part of the baseline's
mean.
"""


def told(one: Comparison, verdict: str, test: Interval, corrected: float, comparisons: int) -> str:
    """The sentence of a comparison that has a test."""
    p = chance(corrected, comparisons)
    if verdict != "not distinguishable":
        low, high = sorted(
            (abs(float(test.low)), abs(float(test.high)))
        )  # of one sign, as p is below 5 %
        return f"{one.name}: {verdict} than {one.against} by {measured(abs(float(test.mean)), low, high)}, {p}"
    if float(test.p) < ALPHA:
        p += f" ({p_value(float(test.p))} before)"
    return (
        f"{one.name}: not distinguishable from {one.against} with {len(one.pairs)} seeds: "
        f"difference {measured(float(test.mean), float(test.low), float(test.high))}, {p}{needed(one, comparisons)}"
    )


def needed(one: Comparison, comparisons: int) -> str:
    """How many seeds would tell the difference that was seen, or one worth telling where that is
    larger.
    """
    seen, worth = (
        abs(fmean(one.differences)),
        WORTH * abs(fmean(one.base[seed] for seed in one.pairs)),
    )
    size = max(seen, worth)
    if not size:
        return ""
    which = (
        "the size of this one" if seen >= worth else f"{WORTH * 100:g} % of {one.against}'s mean"
    )
    seeds = seeds_needed(size, stdev(one.differences), comparisons)
    if seeds is None:
        return f"; more than {MOST_SEEDS:,} seeds would be needed to tell a difference of {brief(size)} ({which})"
    if seeds <= len(one.pairs):
        return f"; a difference of {brief(size)} ({which}) would have been told"
    return f"; about {seeds} seeds would tell a difference of {brief(size)} ({which})"


def untold(one: Comparison) -> str:
    """The sentence of a comparison without a test: the baseline, too few seeds, or no spread at
    all.
    """
    if one.is_baseline:
        return f"{one.name}: the baseline"
    if not one.own or not one.base:
        return f"{one.name}: not judged: {one.name if not one.own else one.against} has no finished run with a score"
    if len(one.pairs) < 2:
        return f"{one.name}: not judged: {len(one.pairs)} seed{'s' * (len(one.pairs) != 1)} in common with {one.against}, and a test needs 2"
    if one.is_same:
        return f"{one.name}: the same as {one.against} in each of {len(one.pairs)} seeds; without any spread there is no test"
    return (
        f"{one.name}: not judged: differs from {one.against} by {fmean(one.differences):+.4g} in each of {len(one.pairs)} seeds alike; "
        "without any spread there is no test"
    )


def measured(value: float, low: float, high: float) -> str:
    """A number and its interval, with as many digits as the interval's width gives a meaning."""
    half = (high - low) / 2
    digits = max(0, -math.floor(math.log10(half / 3))) if half > 0 else 3
    # "-0.0" says nothing that "0.0" does not.
    return "{} ({} to {})".format(
        *(f"{round(number, digits) + 0.0:,.{digits}f}" for number in (value, low, high))
    )


def p_value(p: float) -> str:
    """As papers print it; never rounded across the level that decides."""
    if p < 0.001:
        return "p < 0.001"
    text = f"{p:.2g}"
    return f"p = {text}" if (float(text) < ALPHA) == (p < ALPHA) else f"p < {ALPHA}"


def chance(p: float, comparisons: int) -> str:
    """A corrected p, and for how many comparisons."""
    return (
        f"{p_value(p)} after correction for {comparisons} comparisons"
        if comparisons > 1
        else p_value(p)
    )


def brief(size: float) -> str:
    """Two digits, never an exponent for a large number."""
    return f"{size:.2g}" if size < 99.5 else f"{size:,.0f}"
