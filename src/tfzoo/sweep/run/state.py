"""The runs of a sweep and their status, as the files in the sweep's folder show them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tfzoo.runs.lock import Held, holding
from tfzoo.sweep.plan.sweep_file import Budget, Cell, Plan
from tfzoo.sweep.run.outcome import OVER as OVER
from tfzoo.sweep.run.outcome import Outcome, outcome

STOPPED = (75, 130, -signal.SIGTERM, -signal.SIGINT)
"""Exit codes of a training that somebody stopped: it can go on."""
MOMENT = 0.1
"""Seconds that the look for a status waits for a lock."""
Status = Literal["completed", "diverged", "failed", "running", "interrupted", "missing"]


@dataclass(frozen=True)
class Run:
    """One training of a sweep: a cell and a seed, in a folder.

    Attributes:
        metrics: those that it is to measure, the sweep's own first.
        number: index among all runs, those of refused cells counted; -1 for a tuning trial.
        tuned: label of the tuned value, ``""`` until it is chosen.
    """

    cell: Cell
    seed: int
    folder: Path
    metrics: tuple[str, ...]
    budget: Budget
    number: int = -1
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

    @property
    def outcome(self) -> Outcome:
        """What it came to."""
        return outcome(self.folder, self.metrics, self.budget)


Notify = Callable[[Run, str], object]
"""Is told that a run has another status."""


def planned_runs(plan: Plan, folder: Path) -> list[Run]:
    """All runs of a plan without those of refused cells: all cells with the first seed, then all
    with the second, and so on.
    """
    count = len(plan.seeds)
    return [
        Run(
            cell,
            seed,
            folder / cell.name / f"seed-{seed}",
            tuple(metric.name for metric in plan.metrics),
            plan.budget,
            index * count + offset,
        )
        for offset, seed in enumerate(plan.seeds)
        for index, cell in enumerate(plan.cells)
        if not cell.refused
    ]


def status(run: Run) -> Status:
    """The status of a run: what it came to, unless a process is training it."""
    if run.folder.is_dir():
        try:
            with holding(run.folder, MOMENT):
                pass
        except Held:
            return "running"
    return run.outcome.state
