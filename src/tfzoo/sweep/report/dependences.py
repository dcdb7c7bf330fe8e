"""Interactions of axes: a sentence and a table for each pair."""

from __future__ import annotations

from collections.abc import Iterator

from tfzoo.sweep.judge.interactions import Dependence
from tfzoo.sweep.judge.sentences import format_p
from tfzoo.sweep.report.numbers import NONE, format_interval, format_signed
from tfzoo.sweep.report.results import Results


def heads(results: Results, one: Dependence) -> list[str]:
    """The titles of the columns of :func:`lines`."""
    first, second = (results.axis_name(axis) for axis in one.axes)
    base = results.baseline[one.axes[1]]
    return [first, second, "effect there", f"effect at {base}", "difference", "p"]


def lines(one: Dependence) -> Iterator[list[str]]:
    """A line for each difference between effects."""
    for found in one.found:
        yield [
            *found.labels.values(),
            NONE if found.here is None else format_signed(found.here, 3),
            NONE if found.there is None else format_signed(found.there, 3),
            format_interval(found.difference, found.low, found.high),
            "; ".join([*([format_p(found.p_corrected)] if found.p_corrected else []), *found.notes])
            or NONE,
        ]
