"""Learning curves of runs, from ``metrics.csv`` in their folders: losses, the monitored score and
the learning rate by step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tfzoo.base.scores import factors, format_score
from tfzoo.base.terminal import notify
from tfzoo.errors import BadRun, UnknownName
from tfzoo.plots.style import (
    INK,
    escape_dollars,
    line_style,
    log_figure,
    new_figure,
    save,
    styled,
)
from tfzoo.runs.folder import (
    CONFIG,
    METRICS,
    check_exists,
    logged_curves,
    read_config,
    read_summary,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILE = "curves.png"
"""The picture in the folder of a run."""
LOSSES = ("train/loss", "val/loss")
RATE = "train/lr"
FEW = 40
"""Up to this many values of a line are drawn as points as well."""
BEST: dict[str, Any] = {
    "marker": "o",
    "markersize": 8,
    "markerfacecolor": "none",
    "linestyle": "none",
}
Curve = tuple[NDArray[np.int64], NDArray[np.float64]]
"""The number of optimiser steps at which a metric was logged, and its values."""


@dataclass(frozen=True)
class RunMetrics:
    """What one run has logged.

    Args:
        name: what the run is called.
        curves: each metric.
        monitor: the metric that chooses the best checkpoint; None where it is not known.
        mode: ``max`` or ``min``, what is best.
    """

    name: str
    curves: Mapping[str, Curve]
    monitor: str | None
    mode: str

    def best(self) -> tuple[int, float] | None:
        """The step and the value of the best checkpoint, the last of equal ones; None where there
        is none, as at step 0.
        """
        curve = zip(*self.curves.get(self.monitor or "", ((), ())), strict=True)
        points = [(int(step), float(value)) for step, value in curve if step and np.isfinite(value)]
        pick = max if self.mode == "max" else min
        return pick(points[::-1], key=lambda point: point[1], default=None)


def read_runs(folders: Sequence[Path]) -> list[RunMetrics]:
    """Read the metrics of runs, each of which is called by the part of its path that tells it from
    the others.
    """
    paths = {folder.expanduser().absolute(): folder for folder in folders}
    common = Path(os.path.commonpath(paths)).parent
    if len(paths) == 1:
        common = common.parent
    return [read_run(given, str(path.relative_to(common))) for path, given in paths.items()]


def read_run(folder: Path, name: str) -> RunMetrics:
    """Read the metrics of a run, and call it ``name``.

    Raises:
        BadRun: there is no run, or it has logged nothing.
    """
    folder = folder.expanduser()
    check_exists(folder)
    found = {name: one for name, one in logged_curves(folder).items() if name[:5] != "test/"}
    if not found:
        inside = [
            str(path.parent) for deep in ("*", "*/*") for path in folder.glob(f"{deep}/{CONFIG}")
        ]
        known = f"; runs in it: {', '.join(sorted(inside)[:5])}" if inside else ""
        raise BadRun(f"{folder} has no {METRICS} with values of training{known}")
    recipe, fit = read_config(folder), read_summary(folder).get("fit", {})
    settings: Mapping[str, Any] = recipe.get("checkpoint") or {}
    monitor = settings.get("monitor") or next(iter(fit.get("best") or {}), None)
    if settings.get("save_top_k") == 0:
        monitor = None
    return RunMetrics(
        name,
        {
            name: (np.array(sorted(curve)), np.array([curve[step] for step in sorted(curve)]))
            for name, curve in found.items()
        },
        monitor,
        settings.get("mode", "max"),
    )


def draw_curves(folder: Path, loggers: Sequence[Any], step: int) -> None:
    """Draw the learning curves of a run in its folder and its loggers, unless it has logged
    nothing. If that fails, a message says so.
    """
    try:
        figure = curves_figure(read_runs([folder]))
        save(figure, folder / FILE)
    except BadRun:
        return
    except Exception as error:  # a picture does not end a run
        notify(f"no {FILE}: {' '.join(f'{type(error).__name__}: {error}'.split())[:200]}")
        return
    log_figure(loggers, "curves", lambda: figure, step)


def curves_figure(runs: Sequence[RunMetrics], metrics: Sequence[str] = ()) -> Figure:
    """Draw the learning curves of one or several runs: a panel each for the losses, the monitored
    score and the learning rate, by optimiser step.

    One run has both losses in one panel. Of several runs each has a colour, and each loss a panel.
    A circle marks the best checkpoint. Values that are not finite leave a gap.

    Args:
        runs: what :func:`read_runs` has read.
        metrics: names of columns to draw instead, a panel each.

    Raises:
        UnknownName: no run has logged one of the metrics.
    """
    panels = choose_panels(runs, metrics)
    columns = min(len(panels), 2 if len(panels) == 4 else 3)
    rows = -(-len(panels) // columns)
    beside = max(1, 130 // (8 + max(len(run.name) for run in runs)))
    with styled():
        figure = new_figure(9.0, 0.6 + 2.6 * rows + 0.2 * (len(runs) // beside))
        grid = figure.subplots(rows, columns, squeeze=False).flat
        for axes, panel in zip_longest(grid, panels):
            axes.set_visible(panel is not None)
            draw_panel(axes, panel or (), runs)
        named = [axes.get_legend_handles_labels() for axes in figure.axes]
        lines = {label: line for pair in named for line, label in zip(*pair, strict=True)}
        figure.legend(lines.values(), lines, loc="outside lower left", ncols=beside)
        if len(runs) == 1:
            name = escape_dollars(runs[0].name)
            figure.suptitle(name, x=0.01, ha="left", weight="bold")
    return figure


def choose_panels(runs: Sequence[RunMetrics], metrics: Sequence[str]) -> list[list[str]]:
    """The metrics of each panel: those named, else the ones that runs have logged."""
    logged = list(dict.fromkeys(name for run in runs for name in run.curves))
    for name in metrics:
        if name not in logged:
            raise UnknownName("logged metric", name, logged)
    if metrics:
        return [[name] for name in dict.fromkeys(metrics)]
    losses = [name for name in LOSSES if name in logged]
    scores = dict.fromkeys(run.monitor for run in runs if run.monitor in run.curves)
    if not scores:  # not known before a run has ended
        others = ("val/loss", "val/perplexity", "val/items")
        scores = dict.fromkeys(name for name in logged if name[:4] == "val/" and name not in others)
    panels = [losses] if len(runs) == 1 and losses else [[name] for name in losses]
    panels += [[name] for name in scores if name and name not in losses]
    panels += [[RATE]] if RATE in logged else []
    return panels or [[name] for name in logged[:1]]


def draw_panel(axes: Axes, panel: Sequence[str], runs: Sequence[RunMetrics]) -> None:
    """Lines of one or several metrics of one run, or of one metric of several runs."""
    several = len(runs) > 1
    for index, (run, name) in enumerate((run, name) for run in runs for name in panel):
        if name not in run.curves:
            continue
        steps, values = run.curves[name]
        style = line_style(index)
        label = run.name if several else name if len(panel) > 1 else ""
        finite = np.where(np.isfinite(values), values, np.nan)
        points = "o" if len(steps) <= (1 if name == RATE else FEW) else ""
        axes.plot(steps, finite, **style, marker=points, label=escape_dollars(label))
        if name == run.monitor and (best := run.best()) is not None:
            value = "" if several else f": {format_score(name, best[1])} at step {best[0]:,}"
            colour = style["color"] if several else INK
            axes.plot(*best, **BEST, color=colour, zorder=4, label=f"best checkpoint{value}")
    last = panel[0].rpartition("/")[2] if panel else ""
    title = "loss" if len(panel) > 1 else "learning rate" if last == "lr" else "".join(panel)
    axes.set_title(escape_dollars(title + " (nats)" * (last == "loss")))
    axes.set_xlabel("optimiser steps")
    axes.set_xlim(left=0)
    axes.locator_params("x", nbins=5, steps=[1, 2, 5, 10], integer=True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if factor := factors().get(last):
        axes.yaxis.set_major_formatter(lambda value, _: f"{factor * value:g} %")
