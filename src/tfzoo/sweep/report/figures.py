"""The pictures of a report: effects with their intervals, learning curves, scores over speed."""

from __future__ import annotations

import base64
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from tfzoo.plots.style import COLOURS, GRID, INK, SOFT, escape_dollars, new_figure, styled, svg
from tfzoo.runs.logged import logged_curves
from tfzoo.sweep.judge.paired import interval
from tfzoo.sweep.judge.verdicts import Judged, Verdicts
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
SPEEDS = {
    "tokens_per_second": "Training, tokens per second",
    "decoded_per_second": "Decoding, outputs per second",
}
MOST_NAMED = 20
"""The most cells that have their name beside their mark."""
MAX_POINTS = 100
"""Points of a curve; a plot this small shows no more."""
EARLY = 0.15
"""The part of training that does not set the limits of the plot: its steep fall would hide later
differences.
"""

Curve = dict[int, float]
"""A value by step."""


def inline(figure: Figure, label: str) -> Markup:
    """A figure as an image that the page holds itself, with its text alternative."""
    drawn = base64.b64encode(svg(figure)).decode()
    return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(label, drawn)


def forest(results: Results, verdicts: Verdicts) -> Markup | None:
    """Differences to the baseline with their intervals, a row for each value of an axis, then for
    each cell; None if there are none.
    """
    every = [*(verdicts.axes if verdicts.is_grid else []), *verdicts.cells]
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
    if not known.size:
        return 0.0, 1.0
    first, third = np.quantile(known, [0.25, 0.75], method="nearest")
    reach = 10 * (third - first)
    kept = known[(known >= first - reach) & (known <= third + reach)] if reach else known
    low, high = float(kept.min()), float(kept.max())
    spread = (high - low) or abs(high) or 1.0
    return low - margin * spread, high + margin * spread


@dataclass(frozen=True)
class Band:
    """The mean over seeds and its 95 % confidence interval, by step; the mean alone of one seed."""

    steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Curves:
    """The caption, and a picture with a plot for each cell that has a curve."""

    caption: str
    picture: Markup | None


def curves(results: Results) -> Curves:
    """The curves of the judged metric as it was logged during training."""
    metric, logged = validated(results)
    runs: dict[str, list[Curve]] = defaultdict(list)
    for (name, _), curve in logged.items():
        runs[name].append(curve)
    bands = {name: found for name, own in runs.items() if (found := band(own)).steps}
    shown = [cell for cell in results.cells if cell.name in bands]
    if not shown:
        return Curves("", None)
    label = f"{metric} of each cell by step"
    drawn = inline(panels(shown, bands, results.baseline), label)
    return Curves(caption(results.verdicts[0].metric, metric), drawn)


def panels(
    cells: Sequence[CellResult], bands: Mapping[str, Band], baseline: Mapping[str, str]
) -> Figure:
    """A small plot for each cell, with the mean of the baseline behind it."""
    end = max(found.steps[-1] for found in bands.values())
    late = [
        value
        for found in bands.values()
        for edge in (found.low, found.mean, found.high)
        for step, value in zip(found.steps, edge, strict=True)
        if step >= EARLY * end
    ]
    base = next((bands[cell.name] for cell in cells if cell.labels == baseline), None)
    columns = min(4, len(cells))
    rows = -(-len(cells) // columns)
    with styled():
        figure = new_figure(2.6 * columns, 1.9 * rows)
        grid = [*figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat]
        for axes, cell in zip(grid, cells, strict=False):
            own = bands[cell.name]
            if base is not None and base is not own:
                axes.plot(base.steps, base.mean, color=SOFT, linewidth=1.0)
            axes.fill_between(own.steps, own.low, own.high, color=BETTER, alpha=0.18, linewidth=0)
            axes.plot(own.steps, own.mean, color=BETTER)
            axes.set_title(escape_dollars(cell.title))
            axes.set_ylim(*limits(late))
            axes.set_xlim(0, end)
        for axes in grid[len(cells) :]:
            axes.remove()
        for axes in grid[max(0, len(cells) - columns) : len(cells)]:  # the lowest of each column
            axes.tick_params(labelbottom=True)
    return figure


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


def tradeoffs(results: Results) -> list[Markup]:
    """The score of each cell over its speed, both means over seeds: a plot for each speed that was
    measured of two cells or more.
    """
    drawn = []
    for column, words in SPEEDS.items():
        measured = [(cell, cell.judged[0], cell.mean(column)) for cell in results.cells]
        cells = [
            (cell, one, speed)
            for cell, one, speed in measured
            if speed and one and one.mean is not None
        ]
        if len(cells) > 1:
            drawn.append(tradeoff(results.verdicts[0], cells, words))
    return drawn


def tradeoff(
    verdicts: Verdicts, cells: Sequence[tuple[CellResult, Judged, float]], words: str
) -> Markup:
    """One plot; names stand beside the marks where there are few."""
    with styled():
        figure = new_figure(5.2, 3.8)
        axes = figure.add_subplot()
        for cell, one, speed in cells:
            place, name = (speed, one.mean or 0.0), escape_dollars(cell.title)
            axes.plot(*place, markersize=7, **MARKS[one.verdict])
            if len(cells) <= MOST_NAMED:
                style = {"color": MARKS[one.verdict]["color"], "fontsize": 7}
                axes.annotate(name, place, (5, 4), textcoords="offset points", **style)
        axes.set_ylim(*limits([one.mean for _, one, _ in cells], 0.1))
        axes.margins(x=0.15)
        better = "lower" if verdicts.mode == "min" else "higher"
        axes.set_ylabel(escape_dollars(f"{verdicts.metric}, {better} is better"))
        axes.set_xlabel(words)
        axes.grid(color=GRID)
    return inline(figure, f"{verdicts.metric} against {words.lower()}")


def sign(verdict: str) -> Markup:
    """The mark of a verdict within text."""
    shapes = {"better": "▲", "worse": "▼", "equivalent": "■", "not yet known": "○", "baseline": "◆"}
    kind = escape(verdict.replace(" ", "-"))
    return Markup('<span class="sign {}" aria-hidden="true">{}</span>').format(
        kind, shapes.get(verdict, "·")
    )
