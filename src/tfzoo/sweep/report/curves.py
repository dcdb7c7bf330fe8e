"""Learning curves: a small picture per cell, the baseline's curve behind each."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from tfzoo.sweep.report.numbers import short
from tfzoo.sweep.report.svg import Scale, limits, line, path, picture, tag, text
from tfzoo.sweep.results import Cell, Results

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 252.0, 168.0, 40.0, 22.0, 8.0
POINTS = 100
"""Of a curve, at most: a picture has no place for more."""
LATE = 0.15
"""The part of training that the picture does not make room for: a fast fall would leave none for
the differences after it.
"""

Curve = dict[int, float]
"""A value by step."""


@dataclass(frozen=True)
class Band:
    """The mean over seeds by step, and the least and the largest of them."""

    steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


def curves(results: Results) -> tuple[str, list[tuple[Cell, Markup]]]:
    """The metric that is shown and a picture per cell that has one."""
    top = results.folders[0].path
    logged = {
        cell.name: [read(top / row["run_folder"] / "metrics.csv") for row in cell.done]
        for cell in results.cells
    }
    metric = choose(results.verdicts[0].metric, [run for runs in logged.values() for run in runs])
    bands = {
        name: band([run[metric] for run in runs if run.get(metric)])
        for name, runs in logged.items()
    }
    bands = {name: found for name, found in bands.items() if found.steps}
    if not bands:
        return metric, []
    end = max(found.steps[-1] for found in bands.values())
    late = [
        value
        for found in bands.values()
        for step, value in zip(found.steps, found.mean, strict=True)
        if step >= LATE * end
    ]
    low, high = limits(late or [value for found in bands.values() for value in found.mean])
    x = Scale(0, end, LEFT, WIDTH - 8)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    base = next(
        (bands.get(cell.name) for cell in results.cells if cell.labels == results.baseline), None
    )
    shown = [cell for cell in results.cells if cell.name in bands]
    return metric, [
        (cell, panel(bands[cell.name], base, x, y, f"{metric} of {cell.title} by step"))
        for cell in shown
    ]


def read(file: Path) -> dict[str, Curve]:
    """The curves of a run by metric."""
    found: dict[str, Curve] = defaultdict(dict)
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                for key, value in row.items():
                    if value and key and key.startswith(("train/", "val/")):
                        found[key][int(row["step"])] = float(value)
    except (OSError, ValueError, TypeError):  # no file, or one that was cut
        pass
    return dict(found)


def choose(metric: str, runs: Sequence[Mapping[str, Curve]]) -> str:
    """The judged metric as it was logged on the way: itself, its twin of the validation split, the
    validation loss, the training loss.
    """
    twin = f"val/{metric.rpartition('/')[2]}"
    for name in (metric, twin, "val/loss"):
        if any(len(run.get(name, {})) > 1 for run in runs):
            return name
    return "train/loss"


def band(runs: Sequence[Curve]) -> Band:
    """Over the steps that all runs have."""
    steps = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    steps = [*steps[:: -(-len(steps) // POINTS)], *steps[-1:]] if len(steps) > POINTS else steps
    values = [[run[step] for run in runs] for step in steps]
    return Band(
        steps,
        [sum(seeds) / len(seeds) for seeds in values],
        [min(seeds) for seeds in values],
        [max(seeds) for seeds in values],
    )


def panel(own: Band, base: Band | None, x: Scale, y: Scale, label: str) -> Markup:
    """One cell: its mean, the span of its seeds, and the baseline's mean."""
    drawn = [line(LEFT, y.place(tick), WIDTH - 8, y.place(tick), "grid") for tick in y.ticks(3)]
    drawn += [text(LEFT - 6, y.place(tick) + 4, short(tick), "tick", "end") for tick in y.ticks(3)]
    last = x.ticks(2)[-1]
    drawn += [
        text(x.place(tick), HEIGHT - 6, f"{tick:,.0f}", "tick", "middle" if tick else "start")
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
    drawn.append(
        tag("svg", *lines, viewBox=f"{LEFT} {TOP} {box['width']} {box['height']}", **box)
    )  # cuts what leaves it
    return picture(WIDTH, HEIGHT, label, *drawn)


def points(
    steps: Sequence[int], values: Sequence[float], x: Scale, y: Scale
) -> list[tuple[float, float]]:
    """Pixels of a curve, outside the picture too."""
    return [(x.place(step), y.beyond(value)) for step, value in zip(steps, values, strict=True)]
