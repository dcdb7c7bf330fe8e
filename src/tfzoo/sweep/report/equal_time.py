"""Quality after equal time, beside quality after equal steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from tfzoo.sweep.judge.paired import Mode
from tfzoo.sweep.judge.repeats import of
from tfzoo.sweep.judge.verdicts import judge
from tfzoo.sweep.report.curves import Curve, validated
from tfzoo.sweep.report.heat import difference
from tfzoo.sweep.report.numbers import format_duration
from tfzoo.sweep.report.results import CellResult, Results
from tfzoo.sweep.run.runs_csv import Row

HEADS = ("", "steps by then", "difference after equal steps", "difference after equal time")


@dataclass(frozen=True)
class EqualTime:
    """What is compared, or why nothing is, and the lines of a table under ``HEADS``."""

    caption: str
    lines: list[list[str]]


def equal_time(results: Results) -> EqualTime:
    """Judge the runs by their validation curves where the cell that ended first had ended.

    The time of a step is that of the cell's median run, without validation. Between two validations
    a curve is a straight line.
    """
    judged = results.verdicts[0]
    metric, logged = validated(results)
    curves = {run: curve for run, curve in logged.items() if len(curve) > 1}
    pace = {cell.name: found for cell in results.cells if (found := seconds_per_step(cell))}
    timed = {run: curve for run, curve in curves.items() if run[0] in pace}
    if metric == "train/loss" or not timed:
        why = "runs validated at most once; validate more often (trainer.val_check_interval)"
        if curves and not pace:
            why = "no run recorded how long it trained"
        return EqualTime(f"Not known after equal time: {why}.", [])
    ends = {cell: pace[cell] * max(curve) for (cell, _), curve in timed.items()}
    first = min(ends, key=lambda cell: ends[cell])
    steps = min(max(curve) for curve in timed.values())
    then = {cell: ends[first] / pace[cell] for cell in ends}
    mode: Mode = "min" if metric.endswith("loss") else judged.mode
    verdicts = [
        judge(
            rows_at(results.judged_rows, metric, timed, at),
            results.axes,
            results.baseline,
            metric,
            mode,
            replace(judged.design, margin=None),
        )
        for at in (dict.fromkeys(ends, float(steps)), then)
    ]
    title = next(cell.title for cell in results.cells if cell.name == first)
    return EqualTime(
        f"Difference of {metric} to the baseline after {steps:,} steps of each cell, and after "
        f"{format_duration(ends[first])} of training each, when {title} had ended. The time of a "
        "step is that of the cell's median run, without validation; other work on the machine "
        "changes it. Curves are read between validations.",
        [
            [
                cell.title,
                f"{then[cell.name]:,.0f}",
                *(difference(of(cell.labels, one.cells)) for one in verdicts),
            ]
            for cell in results.cells
            if cell.name in then and cell.labels != results.baseline
        ],
    )


def rows_at(
    rows: Sequence[Row],
    metric: str,
    curves: Mapping[tuple[str, int], Curve],
    steps: Mapping[str, float],
) -> Iterator[Row]:
    """The rows with the value that the curve of each run has after so many steps of its cell."""
    for row in rows:
        curve, after = curves.get((row["cell"], row["seed"])), steps.get(row["cell"])
        yield {**row, metric: read(curve, after) if curve and after else None}


def seconds_per_step(cell: CellResult) -> float | None:
    """The median over the runs of a cell; None if no run recorded its time."""
    found = [
        row["train_seconds"] / row["steps"]
        for row in cell.done
        if row["train_seconds"] and row["steps"]
    ]
    return median(found) if found else None


def read(curve: Curve, after: float) -> float | None:
    """The value of a curve after so many steps; None before its first validation and after its
    last.
    """
    steps = sorted(curve)
    values = [curve[step] for step in steps]
    found = np.interp(round(after, 6), steps, values, left=np.nan, right=np.nan)
    return None if np.isnan(found) else float(found)
