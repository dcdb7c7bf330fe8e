"""Heat maps: tables of all cells, coloured by score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tfzoo.sweep.judge.verdicts import Judged, Verdicts
from tfzoo.sweep.report.figures import limits
from tfzoo.sweep.report.numbers import format_interval, format_mean, format_value
from tfzoo.sweep.report.results import CellResult, Results

STEPS = 8
"""The number of the best shade; the worst is 0."""
SIGNS = {"better": "▲", "worse": "▼", "equivalent": "■"}
"""Marks of verdicts in tables."""
HINTS = {"better": "△", "worse": "▽", "equivalent": "□"}
"""Of verdicts that are hints."""


@dataclass(frozen=True)
class Field:
    """One cell: its text, the smaller text below, its CSS classes, and the text on hover."""

    text: str
    below: str
    kind: str
    hover: str


@dataclass(frozen=True)
class Grid:
    """One table. ``title`` lists the settings that all its cells share. If ``metric`` is empty, its
    columns are metrics.
    """

    metric: str
    title: str
    rows_axis: str
    columns_axis: str
    columns: list[str]
    rows: list[tuple[str, list[Field | None]]]


def grids(results: Results) -> Iterator[Grid]:
    """For each metric a table of the two longest axes, for each combination of the others. With one
    axis, a table of its values and the metrics.
    """
    if len(results.axes) == 1:
        yield one_axis(results)
        return
    for verdicts in results.verdicts:
        yield from two_axes(results, verdicts)


def one_axis(results: Results) -> Grid:
    """One axis: a row for each of its values, a column for each metric."""
    ((axis, labels),) = results.axes.items()
    fields = [fields_of(results, verdicts) for verdicts in results.verdicts]
    rows = [(label, [found.get((label,)) for found in fields]) for label in labels]
    return Grid(
        "",
        "",
        results.axis_name(axis),
        "",
        [f"{one.metric} {'↓' if one.mode == 'min' else '↑'}" for one in results.verdicts],
        rows,
    )


def two_axes(results: Results, verdicts: Verdicts) -> Iterator[Grid]:
    """Two axes or more."""
    fields = fields_of(results, verdicts)
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
            title = ", ".join(f"{results.axis_name(axis)} {label}" for axis, label in fixed.items())
            better = "lower is better" if verdicts.mode == "min" else "higher is better"
            metric = f"{verdicts.metric}, {better}"
            yield Grid(
                metric,
                title,
                results.axis_name(down),
                results.axis_name(across),
                results.axes[across],
                rows,
            )


def fields_of(results: Results, verdicts: Verdicts) -> dict[tuple[str, ...], Field]:
    """The field of each cell by its labels."""
    index, shade = results.verdicts.index(verdicts), Shade(verdicts)
    return {
        tuple(cell.labels[axis] for axis in results.axes): field(cell, index, shade)
        for cell in results.cells
    }


class Shade:
    """Maps a score to the CSS class of its shade."""

    def __init__(self, verdicts: Verdicts) -> None:
        self.low, self.high = limits(
            [one.mean for one in verdicts.cells if one.mean is not None], margin=0.0
        )
        self.lower = verdicts.mode == "min"

    def __call__(self, value: float) -> str:
        part = min(1.0, max(0.0, (value - self.low) / ((self.high - self.low) or 1)))
        return f"q{round((1 - part if self.lower else part) * STEPS)}"


def field(cell: CellResult, index: int, shade: Shade) -> Field:
    """The field of one cell."""
    judged = cell.judged[index]
    if cell.refused:
        return Field("refused", "", "none", cell.refused)
    gone = sum(row["status"] == "diverged" for row in cell.rows)
    if judged is None or judged.mean is None or not cell.done:
        ended = [(row["status"], row["reason"]) for row in cell.rows if row["reason"]]
        status, reason = next(iter(ended), ("not run", "no run is completed"))
        return Field(status, "", "none", reason)
    mean, _, half = format_mean(judged.mean, judged.low, judged.high).partition(" ± ")
    marks = [half and f"± {half}", sign(judged), gone and f"({gone} diverged)"]
    below = " ".join(str(one) for one in marks if one)
    kind = shade(judged.mean) + " baseline" * (judged.verdict == "baseline")
    return Field(
        mean if half else format_value(judged.mean), below, kind, f"{cell.title}. {judged.sentence}"
    )


def sign(one: Judged) -> str:
    """``▲`` better, ``▼`` worse, ``■`` equivalent, hollow if it is a hint; ``""`` for other
    verdicts.
    """
    return (HINTS if one.is_hint else SIGNS).get(one.verdict, "")


def difference(one: Judged) -> str:
    """``−0.12 (−0.20 to −0.04) ▲``."""
    text = format_interval(one.difference, one.difference_low, one.difference_high)
    return f"{text} {sign(one)}".strip()
