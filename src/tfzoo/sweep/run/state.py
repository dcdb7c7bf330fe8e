"""The runs of a sweep and their status, as the files in the sweep's folder show them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tfzoo.base.bounded_files import object_of
from tfzoo.runs.files import replace_text
from tfzoo.runs.folder import CONFIG, is_complete, read_summary
from tfzoo.runs.lock import Held, holding
from tfzoo.sweep.plan.sweep_file import Cell, Plan

FAILED = "failed.json"
"""The reason of a failure, in the run's folder."""
TIMING = "timing.json"
"""Wall-clock seconds that the run's processes took, start-up included, in the run's folder."""
MOMENT = 0.1
"""Seconds that the look for a status waits for a lock."""
STOPPED = (75, 130)
"""Exit codes of ``tfzoo fit`` after a signal: the run can be resumed."""
DIVERGED = "diverged: "
"""How the reason of a failure begins if the run diverged
(:func:`tfzoo.sweep.judge.diverged.why_diverged`).
"""
PRUNED = "pruned.json"
"""Why a cell was pruned, in the cell's folder."""
Status = Literal["completed", "failed", "pruned", "running", "paused", "stopped", "missing"]
OVER = ("completed", "failed", "pruned")
"""The statuses of a run that will not be trained further."""


@dataclass(frozen=True)
class Run:
    """One training of a sweep: a cell and a seed, in a folder.

    Attributes:
        number: index among all runs, those of refused cells counted; -1 for a tuning trial.
        tuned: label of the tuned value, ``""`` until it is chosen.
    """

    cell: Cell
    seed: int
    folder: Path
    number: int
    tuned: str = ""

    @cached_property
    def name(self) -> str:
        """The name in messages: ``norm=rms seed 1``."""
        return f"{self.cell.name} seed {self.seed}" + (
            f" (trying {self.tuned})" if self.number < 0 else ""
        )

    @property
    def recipe(self) -> dict[str, Any]:
        """The resolved configuration."""
        return {**self.cell.recipes[self.tuned], "seed": self.seed}


def planned_runs(plan: Plan, folder: Path) -> list[Run]:
    """All runs of a plan without those of refused cells: all cells with the first seed, then all
    with the second, and so on.
    """
    count = len(plan.seeds)
    return [
        Run(cell, seed, folder / cell.name / f"seed-{seed}", index * count + offset)
        for offset, seed in enumerate(plan.seeds)
        for index, cell in enumerate(plan.cells)
        if not cell.refused
    ]


def status(run: Run) -> Status:
    """The status of a run; ``stopped`` is one that was stopped and can be resumed."""
    if not run.folder.is_dir():
        return "pruned" if is_pruned(run) else "missing"
    try:
        with holding(run.folder, MOMENT):
            pass
    except Held:
        return "running"
    if (run.folder / FAILED).is_file():
        return "failed"
    if is_complete(run.folder):
        return "completed"
    if is_pruned(run):
        return "pruned"
    return "stopped" if (run.folder / CONFIG).is_file() else "missing"


def is_pruned(run: Run) -> bool:
    """Whether a run's cell was pruned."""
    return run.number >= 0 and (run.folder.parent / PRUNED).is_file()


def scores(folder: Path) -> dict[str, float | None]:
    """All ``val/*`` and ``test/*`` scores of a run; None stands for one that was not finite."""
    found = read_summary(folder)
    return {**found.get("fit", {}).get("scores", {}), **found.get("test", {}).get("scores", {})}


def score(folder: Path, metric: str) -> float:
    """One score of a run; NaN if it has none."""
    found = scores(folder).get(metric)
    return math.nan if found is None else found


def trained_threads(folder: Path) -> int | None:
    """The CPU threads that a run was trained with; None if it is not known or was on a GPU."""
    hardware = read_summary(folder).get("fit", {}).get("hardware") or {}
    threads = hardware.get("threads")
    return threads if isinstance(threads, int) and not hardware.get("gpus") else None


def record_failure(folder: Path, reason: str, code: int) -> None:
    """Record that a run failed, with the reason in one line."""
    folder.mkdir(parents=True, exist_ok=True)
    attempts = 1 + int(failure(folder).get("attempts", 0))
    replace_text(
        folder / FAILED,
        json.dumps({"reason": " ".join(reason.split()), "exit": code, "attempts": attempts}) + "\n",
    )


def failure(folder: Path) -> dict[str, Any]:
    """The recorded failure of a run; empty if it did not fail."""
    return object_of(folder / FAILED)


def add_wall_seconds(folder: Path, seconds: float) -> None:
    """Add the time of one process to the time that a run took."""
    total = (wall_seconds(folder) or 0.0) + seconds
    replace_text(folder / TIMING, json.dumps({"wall_seconds": round(total, 2)}) + "\n")


def wall_seconds(folder: Path) -> float | None:
    """Wall-clock seconds that a run took, start-up included; None if none were recorded."""
    found = object_of(folder / TIMING).get("wall_seconds")
    return float(found) if isinstance(found, int | float) else None
