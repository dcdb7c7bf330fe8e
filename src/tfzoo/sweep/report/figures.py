"""The pictures of a report: effects with their intervals, and learning curves."""

from __future__ import annotations

import base64
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tfzoo.plots.style import COLOURS, INK, SOFT, escape_dollars, new_figure, picture, styled
from tfzoo.runs.folder import logged_curves
from tfzoo.sweep.judge.verdicts import Verdicts
from tfzoo.sweep.report.results import CellResult, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETTER, WORSE, *_ = COLOURS
MARKS: Mapping[str, dict[str, Any]] = {
    "better": {"marker": "^", "color": BETTER},
    "worse": {"marker": "v", "color": WORSE},
    "equivalent": {"marker": "s", "color": SOFT},
    "not yet known": {"marker": "o", "color": SOFT, "markerfacecolor": "white"},
    "not judged": {"marker": ".", "color": SOFT},
    "baseline": {"marker": "D", "color": INK},
}
"""How the verdicts are drawn: by shape as well as by colour."""
MAX_CELLS = 40
"""Cells that pictures show; nobody could tell more apart."""
MAX_POINTS = 100
"""Points of a curve; a plot this small shows no more."""
EARLY = 0.15
"""The part of training that does not set the limits of the plot: its steep fall would hide later
differences. A plot that begins at step 0, as trained weights do, shows all: there it is what a
swapped part costs at once.
"""

Curve = dict[int, float]
"""A value by step."""


def inline(figure: Figure, label: str) -> str:
    """A figure as an image that the page holds itself, with its text alternative."""
    drawn = base64.b64encode(picture(figure, "svg")).decode()
    return f'<img alt="{escape(label)}" src="data:image/svg+xml;base64,{drawn}">'


def best_cells(results: Results) -> list[CellResult]:
    """The cells that pictures show: the baseline, then the best by the sweep's own metric."""
    sign = 1 if results.verdicts[0].mode == "min" else -1

    def rank(cell: CellResult) -> tuple[bool, float]:
        mean = cell.judged[0].mean
        return cell.labels != results.plan.baseline, math.inf if mean is None else sign * mean

    return sorted(results.cells, key=rank)[:MAX_CELLS]


def forest(results: Results, verdicts: Verdicts, cells: Sequence[CellResult]) -> str | None:
    """Differences to the baseline with their intervals, a row for each value of an axis, then for
    each of these cells; None if there are none.
    """
    labels = [cell.labels for cell in cells]
    every = [one for one in verdicts.cells if one.labels in labels]
    every = [*(verdicts.axes if verdicts.is_grid else []), *every]
    shown = [one for one in every if one.difference is not None]
    if not shown:
        return None
    with styled():
        figure = new_figure(10, 0.8 + 0.26 * len(shown))
        axes = figure.add_subplot()
        for row, one in enumerate(shown):
            style, ends = MARKS[one.verdict], [one.difference_low, one.difference_high]
            if None not in ends:
                axes.plot(np.array(ends), [row, row], color=style["color"], linewidth=1.6)
            axes.plot([one.difference or 0.0], [row], markersize=6, **style)
        names = [escape_dollars(results.title(one)) for one in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        ends = [end for one in shown for end in (one.difference_low, one.difference_high)]
        axes.set_xlim(*limits([0.0, *(one.difference for one in shown), *ends]))
        axes.axvline(0.0, color=SOFT, linewidth=0.8, zorder=0)
        axes.grid(axis="y", visible=False)
        better = "lower" if verdicts.mode == "min" else "higher"
        axes.set_xlabel(escape_dollars(f"difference of {verdicts.metric}, {better} is better"))
    return inline(figure, f"Differences of {verdicts.metric} to the baseline")


def limits(values: Sequence[float | None], margin: float = 0.06) -> tuple[float, float]:
    """The smallest and largest value without outliers, widened by ``margin`` of their range. An
    outlier is more than 10 interquartile ranges away from the quartiles.
    """
    known = np.array([value for value in values if value is not None and math.isfinite(value)])
    first, third = np.quantile(known, [0.25, 0.75])
    reach = 10 * (third - first) or np.inf
    low, high = max(known.min(), first - reach), min(known.max(), third + reach)
    spread = (high - low) or abs(high) or 1.0
    return float(low - margin * spread), float(high + margin * spread)


def curves(results: Results, cells: Sequence[CellResult]) -> str | None:
    """The curves of a metric as it was logged during training (:func:`validated`) and what they
    are: a small plot for each cell, a line for each seed, those of the baseline grey. None if
    nothing was logged.
    """
    metric, runs = validated(results)
    shown = [cell for cell in cells if cell.name in runs]
    if not shown:
        return None
    baseline = results.plan.baseline
    base = [one for cell in shown if cell.labels == baseline for one in runs[cell.name]]
    every = [point for cell in shown for curve in runs[cell.name] for point in curve.items()]
    start, end = min(every)[0], max(every)[0]
    late = [value for step, value in every if step >= EARLY * end]
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    with styled():
        figure = new_figure(2.6 * columns, 1.9 * rows)
        grid = [*figure.subplots(rows, columns, sharey=True, squeeze=False).flat]
        for axes, cell in zip(grid, shown, strict=False):
            for colour, own in ((SOFT, base), (BETTER, runs[cell.name])):
                for curve in own:
                    points = sorted(curve.items())
                    steps, values = zip(*points[:: -(-len(points) // MAX_POINTS)], strict=True)
                    axes.plot(steps, values, color=colour, linewidth=1.0)
            axes.set(xlim=(0, end), title=escape_dollars(cell.title))
        if start:
            grid[0].set_ylim(*limits(late))
        for axes in grid[len(shown) :]:
            axes.remove()
    picture = inline(figure, f"{metric} of each cell by step")
    return f"{picture}<figcaption>{escape(caption(results, metric))}</figcaption>"


def validated(results: Results) -> tuple[str, dict[str, list[Curve]]]:
    """The first of these that was logged more than once: the judged metric, the same metric on the
    validation split, the validation loss; else the training loss. And its curves by cell, one for
    each completed run that logged it.
    """
    top, judged = results.folder.path, results.verdicts[0].metric
    runs = [
        (row["cell"], logged_curves(top / row["run_folder"]))
        for row in results.rows
        if row["status"] == "completed" and row["run_folder"]
    ]
    names = (judged, f"val/{judged.rpartition('/')[2]}", "val/loss")
    several = {name for _, run in runs for name, curve in run.items() if len(curve) > 1}
    metric = next((name for name in names if name in several), "train/loss")
    curves = defaultdict[str, list[Curve]](list)
    for cell, run in runs:
        if metric in run:
            curves[cell].append(run[metric])
    return metric, curves


def caption(results: Results, metric: str) -> str:
    """The metric of the curves and, if it is not the judged one, why."""
    judged = results.verdicts[0].metric
    text = f"{metric} by training step, a line for each seed; the baseline is grey"
    if metric == "train/loss":
        return (
            f"{text}. {judged} has no curve because runs validated at most once; to get one, "
            "validate more often (trainer.val_check_interval)."
        )
    return f"{text}." if metric == judged else f"{text} (judged by {judged})."
