"""Learning curves: a small plot per cell, with the baseline's curve behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tfzoo.runs.logged import logged_curves
from tfzoo.sweep.judge.paired import interval
from tfzoo.sweep.report.numbers import format_value
from tfzoo.sweep.report.results import CellResult, Results
from tfzoo.sweep.report.svg import Scale, limits, line, path, picture, tag, text

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 252.0, 168.0, 40.0, 22.0, 8.0
MAX_POINTS = 100
"""Points of a curve; a plot this small shows no more."""
EARLY = 0.15
"""The part of training that does not set the limits of the plot: its steep fall would hide later
differences.
"""

Curve = dict[int, float]
"""A value by step."""


@dataclass(frozen=True)
class Band:
    """The mean over seeds and its 95 % confidence interval, by step; the mean alone of one seed."""

    steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Curves:
    """The caption, and a plot for each cell that has a curve."""

    caption: str
    panels: list[tuple[CellResult, Markup]]


def curves(results: Results) -> Curves:
    """The curves of the judged metric as it was logged during training."""
    metric, logged = validated(results)
    runs: dict[str, list[Curve]] = defaultdict(list)
    for (name, _), curve in logged.items():
        runs[name].append(curve)
    bands = {name: found for name, own in runs.items() if (found := band(own)).steps}
    if not bands:
        return Curves("", [])
    end = max(found.steps[-1] for found in bands.values())
    late = [
        value
        for found in bands.values()
        for edge in (found.low, found.mean, found.high)
        for step, value in zip(found.steps, edge, strict=True)
        if step >= EARLY * end
    ]
    low, high = limits(late)
    x = Scale(0, end, LEFT, WIDTH - 8)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    base = next(
        (bands.get(cell.name) for cell in results.cells if cell.labels == results.baseline), None
    )
    shown = [cell for cell in results.cells if cell.name in bands]
    panels = [
        (cell, panel(bands[cell.name], base, x, y, f"{metric} of {cell.title} by step"))
        for cell in shown
    ]
    return Curves(caption(results.verdicts[0].metric, metric), panels)


def validated(results: Results) -> tuple[str, dict[tuple[str, int], Curve]]:
    """The metric of :func:`choose`, and the curve of each completed run that logged it, by cell and
    seed.
    """
    top, judged = results.folders[0].path, results.verdicts[0]
    runs = {
        (row["cell"], row["seed"]): logged_curves(top / row["run_folder"])
        for row in results.rows
        if row["status"] == "completed" and row["run_folder"]
    }
    metric = choose(judged.metric, list(runs.values()))
    return metric, {run: found[metric] for run, found in runs.items() if metric in found}


def choose(metric: str, runs: Sequence[Mapping[str, Curve]]) -> str:
    """The first of these that was logged more than once: the judged metric, the same metric on the
    validation split, the validation loss; else the training loss.
    """
    twin = f"val/{metric.rpartition('/')[2]}"
    for name in (metric, twin, "val/loss"):
        if any(len(run.get(name, {})) > 1 for run in runs):
            return name
    return "train/loss"


def caption(judged: str, metric: str) -> str:
    """The metric of the curves and, if it is not the judged one, why."""
    text = f"{metric} by training step: mean over seeds with its 95 % confidence interval"
    if metric == "train/loss":
        return (
            f"{text}. {judged} has no curve because runs validated at most once; to get one, "
            "validate more often (trainer.val_check_interval)"
        )
    return text if metric == judged else f"{text} (judged by {judged})"


def band(runs: Sequence[Curve]) -> Band:
    """The band over the steps that all runs logged."""
    steps = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    steps = (
        [*steps[:: -(-len(steps) // MAX_POINTS)], *steps[-1:]] if len(steps) > MAX_POINTS else steps
    )
    values = np.array([[run[step] for run in runs] for step in steps])
    if len(runs) < 2 or not steps:
        mean = values.ravel().tolist()
        return Band(steps, mean, mean, mean)
    with np.errstate(divide="ignore", invalid="ignore"):  # p, where all seeds are equal
        around = interval(values)
    return Band(steps, around.mean.tolist(), around.low.tolist(), around.high.tolist())


def panel(own: Band, base: Band | None, x: Scale, y: Scale, label: str) -> Markup:
    """One cell: its mean, the mean's interval, and the baseline's mean."""
    drawn = [line(LEFT, y.pixel(tick), WIDTH - 8, y.pixel(tick), "grid") for tick in y.ticks(3)]
    drawn += [
        text(LEFT - 6, y.pixel(tick) + 4, format_value(tick), "tick", "end") for tick in y.ticks(3)
    ]
    last = x.ticks(4)[-1]
    drawn += [
        text(x.pixel(tick), HEIGHT - 6, f"{tick:,.0f}", "tick", "middle" if tick else "start")
        for tick in (0.0, last)
    ]
    lines = (
        []
        if base is None or base is own
        else [path(points(base.steps, base.mean, x, y), "curve base")]
    )
    around = [*points(own.steps, own.high, x, y), *points(own.steps, own.low, x, y)[::-1]]
    lines += [
        path(around, "band", closed=True),
        path(points(own.steps, own.mean, x, y), "curve own"),
    ]
    box = {"x": LEFT, "y": TOP, "width": WIDTH - 8 - LEFT, "height": HEIGHT - BOTTOM - TOP}
    # An inner svg element clips the curves to the plot.
    drawn.append(tag("svg", *lines, viewBox=f"{LEFT} {TOP} {box['width']} {box['height']}", **box))
    return picture(WIDTH, HEIGHT, label, *drawn)


def points(
    steps: Sequence[int], values: Sequence[float], x: Scale, y: Scale
) -> list[tuple[float, float]]:
    """The pixels of a curve, also outside the plot."""
    return [(x.pixel(step), y.unclipped(value)) for step, value in zip(steps, values, strict=True)]
