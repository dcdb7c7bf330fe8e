"""The numbers that a run has logged, from ``metrics.csv`` in its folder."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfzoo.errors import BadRun
from tfzoo.runs.folder import read_config, read_summary, similar_runs
from tfzoo.runs.logged import FILE, logged_values

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
        """The step and the value of the best checkpoint; None where there is none."""
        if self.monitor is None or self.monitor not in self.curves:
            return None
        steps, values = self.curves[self.monitor]
        finite = np.isfinite(values)
        if not finite.any():
            return None
        steps, values = steps[finite], values[finite]
        index = int(values.argmax() if self.mode == "max" else values.argmin())
        return int(steps[index]), float(values[index])


def read_runs(folders: Sequence[Path]) -> list[RunMetrics]:
    """Read the metrics of runs, each of which is called by the part of its path that tells it from
    the others.

    Raises:
        BadRun: no run, or one that has logged nothing.
    """
    paths = {folder.expanduser().absolute(): folder for folder in folders}
    common = Path(os.path.commonpath(paths)).parent
    if len(paths) == 1:
        common = common.parent
    return [read_run(given, str(path.relative_to(common))) for path, given in paths.items()]


def read_run(folder: Path, name: str = "") -> RunMetrics:
    """Read the metrics of a run.

    Args:
        folder: the run's folder.
        name: what to call it; empty for the last two parts of its path.

    Raises:
        BadRun: there is no run, or it has logged nothing.
    """
    folder = folder.expanduser()
    if not folder.is_dir():
        others = similar_runs(folder)
        known = f" Runs there are: {', '.join(others)}" if others else ""
        what = "is a file; name the run's folder." if folder.exists() else "does not exist."
        raise BadRun(f"{folder} {what}{known}")
    recipe, fit = read_config(folder), read_summary(folder).get("fit", {})
    settings: Mapping[str, Any] = recipe.get("checkpoint") or {}
    monitor = settings.get("monitor") or next(iter(fit.get("best") or {}), None)
    if settings.get("save_top_k") == 0:
        monitor = None
    return RunMetrics(
        name or "/".join(folder.absolute().parts[-2:]),
        read_curves(folder),
        monitor,
        settings.get("mode", "max"),
    )


def read_curves(folder: Path) -> dict[str, Curve]:
    """Each metric that was logged in training. The last of several values of one step counts.

    Raises:
        BadRun: there is no file, it is damaged, or it has no rows.
    """
    found: dict[str, dict[int, float]] = defaultdict(dict)
    path = folder / FILE
    try:
        for name, step, value in logged_values(folder):
            if not name.startswith("test/"):
                found[name][step] = value
    except FileNotFoundError:
        inside = similar_runs(folder / "x")
        known = f"; runs in it: {', '.join(inside)}" if inside else ""
        raise BadRun(f"{folder} has no {FILE}, which every training writes{known}") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadRun(f"{path} cannot be read: {error}") from None
    if not found:
        raise BadRun(f"{path} has no values of training yet")
    return {
        name: (np.array(sorted(curve)), np.array([curve[step] for step in sorted(curve)]))
        for name, curve in found.items()
    }
