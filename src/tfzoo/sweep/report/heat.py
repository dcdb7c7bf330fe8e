"""The grid as a table whose fields are coloured by their score; a sweep of more than two axes is
several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tfzoo.sweep.judge import Verdicts
from tfzoo.sweep.report.numbers import around, short
from tfzoo.sweep.report.svg import limits
from tfzoo.sweep.results import Cell, Results

STEPS = 8
"""Shades, from worst to best."""
SIGNS = {"better": "▲", "worse": "▼"}


@dataclass(frozen=True)
class Field:
    """One cell: what is written in it, below it, its class and the words that appear when it is
    pointed at.
    """

    text: str
    below: str
    kind: str
    told: str


@dataclass(frozen=True)
class Grid:
    """One table; ``title`` says the settings that all its cells have. Without a ``metric``, its
    columns are metrics.
    """

    metric: str
    title: str
    rows_axis: str
    columns_axis: str
    columns: list[str]
    rows: list[tuple[str, list[Field | None]]]


def grids(results: Results) -> Iterator[Grid]:
    """For each metric the two longest axes against each other, once per combination of the others;
    an axis alone against the metrics.
    """
    if len(results.axes) == 1:
        yield alone(results)
        return
    for verdicts in results.verdicts:
        yield from crossed(results, verdicts)


def alone(results: Results) -> Grid:
    """One axis: a row for each of its values, a column for each metric."""
    ((axis, labels),) = results.axes.items()
    fields = [fielded(results, verdicts) for verdicts in results.verdicts]
    rows = [(label, [found.get((label,)) for found in fields]) for label in labels]
    return Grid(
        "",
        "",
        results.short(axis),
        "",
        [f"{one.metric} {'↓' if one.mode == 'min' else '↑'}" for one in results.verdicts],
        rows,
    )


def crossed(results: Results, verdicts: Verdicts) -> Iterator[Grid]:
    """Two axes or more."""
    fields = fielded(results, verdicts)
    down, across = sorted(results.axes, key=lambda axis: -len(results.axes[axis]))[:2]
    others = [axis for axis in results.axes if axis not in (down, across)]
    for rest in product(*(results.axes[axis] for axis in others)):
        fixed = dict(zip(others, rest, strict=True))
        rows = []
        for label in results.axes[down]:
            labels = [{**fixed, down: label, across: column} for column in results.axes[across]]
            rows.append(
                (label, [fields.get(tuple(one[axis] for axis in results.axes)) for one in labels])
            )
        if any(one for _, row in rows for one in row):
            title = ", ".join(f"{results.short(axis)} {label}" for axis, label in fixed.items())
            better = "lower is better" if verdicts.mode == "min" else "higher is better"
            metric = f"{verdicts.metric}, {better}"
            yield Grid(
                metric,
                title,
                results.short(down),
                results.short(across),
                results.axes[across],
                rows,
            )


def fielded(results: Results, verdicts: Verdicts) -> dict[tuple[str, ...], Field]:
    """What stands in the place of each cell, by its labels."""
    place, shade = results.verdicts.index(verdicts), Shade(verdicts)
    return {
        tuple(cell.labels[axis] for axis in results.axes): field(cell, place, shade)
        for cell in results.cells
    }


class Shade:
    """From a score to one of the shades."""

    def __init__(self, verdicts: Verdicts) -> None:
        self.low, self.high = limits(
            [one.mean for one in verdicts.cells if one.mean is not None], room=0.0
        )
        self.lower = verdicts.mode == "min"

    def __call__(self, value: float) -> str:
        part = min(1.0, max(0.0, (value - self.low) / ((self.high - self.low) or 1)))
        return f"q{round((1 - part if self.lower else part) * STEPS)}"


def field(cell: Cell, place: int, shade: Shade) -> Field:
    """What stands in the place of a cell."""
    judged = cell.judged[place]
    if cell.refused:
        return Field("refused", "", "none", cell.refused)
    if judged is None or judged.mean is None:
        reasons = [row["reason"] for row in cell.rows if row["reason"]]
        return Field(
            "failed" if reasons else "not run",
            "",
            "none",
            next(iter(reasons), "no run is complete"),
        )
    mean, _, half = around(judged.mean, judged.low, judged.high).partition(" ± ")
    below = f"{half and f'± {half}'} {SIGNS.get(judged.verdict, '')}".strip()
    kind = shade(judged.mean) + " baseline" * (judged.verdict == "baseline")
    return Field(
        mean if half else short(judged.mean), below, kind, f"{cell.title}. {judged.sentence}"
    )
