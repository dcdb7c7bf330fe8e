"""The folder of a sweep: what is planned in it, and what became of each run, judged from the files
in the run's own folder, whoever asks and whenever.
"""

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tfzoo.base.files import object_of, replace_text
from tfzoo.runs.folder import (
    CONFIG,
    SCORELESS,
    Held,
    holding,
    is_complete,
    logged_curves,
    read_config,
    read_summary,
    set_values,
)
from tfzoo.sweep.judge.diverged import no_better
from tfzoo.sweep.judge.effects import NO_BETTER
from tfzoo.sweep.plan.sweep_file import Budget, Cell, Plan

SWEEP, CELLS = "sweep.yaml", "cells.json"
FAILED = "failed.json"
"""Why a run failed that could not write it into its summary, in the run's folder."""
ENDED = ("completed", *NO_BETTER)
"""The states of a run that has scores."""
OVER = (*ENDED, "failed")
"""The states of a run that is not trained further."""
WAITING = ("interrupted", "missing")
"""Those of one that is to be trained."""
STOPPED = (75, 130, -signal.SIGTERM, -signal.SIGINT)
"""Exit codes of a training that somebody stopped: it can go on."""
MOMENT = 0.1
"""Seconds that the look for a status waits for a lock."""
State = Literal["completed", "diverged", "learnt nothing", "failed", "interrupted", "missing"]
Status = Literal[State, "running"]


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        state: ``diverged`` and ``learnt nothing`` are by
            :func:`tfzoo.sweep.judge.diverged.no_better`. An ``interrupted`` run can go on, a
            ``missing`` one has not begun.
        reason: why it is no better than untrained, or failed.
    """

    state: State
    reason: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run is not trained further."""
        return self.state in OVER


@dataclass(frozen=True)
class Run:
    """One training of a sweep: a cell and a seed, in a folder.

    Attributes:
        metrics: those that it is to measure, the first of which decides what it came to.
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
    def is_tested(self) -> bool:
        """Whether it is scored on its test sets."""
        return any(name.startswith("test/") for name in self.metrics)

    @property
    def scores(self) -> dict[str, float | None]:
        """All ``val/*`` and ``test/*`` scores; None stands for one that was not finite."""
        found = read_summary(self.folder)
        return {**found.get("fit", {}).get("scores", {}), **found.get("test", {}).get("scores", {})}

    @property
    def outcome(self) -> Outcome:
        """What it came to."""
        summary = read_summary(self.folder)
        fit = summary.get("fit", {})
        word, _, why = str(fit.get("ended", "")).partition(": ")
        if word == "diverged":
            return Outcome("diverged", why)
        if word == "failed":
            return Outcome("failed", why)
        if recorded := object_of(self.folder / FAILED):
            return Outcome("failed", str(recorded.get("reason", "no reason was recorded")))
        if not is_complete(self.folder) or (self.is_tested and "test" not in summary):
            return Outcome("interrupted" if (self.folder / CONFIG).is_file() else "missing")
        if reason := self.unused_budget(fit):
            goes_on = fit.get("out_of_time") and fit.get("seconds", 0) < self.budget.seconds
            return Outcome("interrupted") if goes_on else Outcome("failed", reason)
        scores, name = self.scores, self.metrics[0]
        if name not in scores:
            return Outcome("failed", f"it measured no {name}")
        found = no_better(scores, logged_curves(self.folder), fit.get("constant_loss"), name)
        return Outcome(*found) if found else Outcome("completed")

    def unused_budget(self, fit: Mapping[str, Any]) -> str:
        """Why it ended before it had used the budget that all cells have; ``""`` if it did not."""
        steps, tokens, budget = fit.get("steps", 0), fit.get("tokens", 0), self.budget
        max_steps = (read_config(self.folder).get("trainer") or {}).get("max_steps") or -1
        unfinished = steps < max_steps or tokens < (budget.tokens or 0)
        if fit.get("out_of_time") and unfinished:
            return f"budget.time {budget.time} was over after {steps:,} steps"
        if budget.tokens and tokens < budget.tokens and steps >= max_steps > 0:
            return (
                f"trainer.max_steps ended it after {tokens:,} of {budget.tokens:,} tokens "
                "(budget.tokens): raise it"
            )
        return ""

    @property
    def status(self) -> Status:
        """What it came to, unless a process is training it."""
        if self.folder.is_dir():
            try:
                with holding(self.folder, MOMENT):
                    pass
            except Held:
                return "running"
        return self.outcome.state


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


def differences(
    one: Mapping[str, Any], other: Mapping[str, Any], *ignored: str
) -> list[tuple[str, Any, Any]]:
    """The keys in which two recipes differ and that change scores, with both values."""
    old, new = (set_values(recipe) for recipe in (one, other))
    pairs = [
        (name, old.get(name, "not set"), new.get(name, "not set"))
        for name in sorted(old.keys() | new.keys())
        if name not in (*SCORELESS, *ignored) and not name.startswith("trainer.logger.")
    ]
    return [pair for pair in pairs if pair[1] != pair[2]]


def record_failure(folder: Path, reason: str) -> None:
    """Record why a run failed, in one line."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / FAILED, json.dumps({"reason": " ".join(reason.split())}) + "\n")
