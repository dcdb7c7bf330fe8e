"""What a sweep's folder says of its runs: the folder is the truth, and nobody keeps another
account.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import yaml

from tfzoo.errors import BadRun
from tfzoo.runs import config, summary
from tfzoo.sweep.plan import Cell, Plan

FAILED = "failed.json"
LOCK = "lock"
SWEEP, CELLS = "sweep.yaml", "cells.json"
Status = Literal["completed", "failed", "running", "half", "missing"]
ANY = {
    *(
        f"trainer.{key}"
        for key in (
            "max_time",
            "logger",
            "log_every_n_steps",
            "enable_progress_bar",
            "enable_model_summary",
            "profiler",
        )
    ),
    *("trainer.accelerator", "data.workers", "timeout", "explain"),
}
"""What may differ between a run that is there and the sweep file: it changes no score."""


@dataclass(frozen=True)
class Run:
    """One training of a sweep: a cell with a seed, in a folder. ``number`` is its place among all,
    those of refused cells counted.

    ``tuned`` is the label of the tuned value, once it is chosen; a trial that helps to choose it
    has the number -1.
    """

    cell: Cell
    seed: int
    folder: Path
    number: int
    tuned: str = ""

    @property
    def name(self) -> str:
        """As a person is told of it."""
        return f"{self.cell.name} seed {self.seed}" + (
            f" (trying {self.tuned})" if self.number < 0 else ""
        )

    @property
    def recipe(self) -> dict[str, Any]:
        """Its whole configuration."""
        return {**self.cell.recipes[self.tuned], "seed": self.seed}


def runs(plan: Plan, folder: Path) -> list[Run]:
    """All runs of a plan but those of refused cells: all cells with the first seed, then with the
    next.
    """
    count = len(plan.seeds)
    return [
        Run(cell, seed, folder / cell.name / f"seed-{seed}", place * count + offset)
        for offset, seed in enumerate(plan.seeds)
        for place, cell in enumerate(plan.cells)
        if not cell.refused
    ]


def status(run: Run) -> Status:
    """How far a run is, as its folder says."""
    if not run.folder.is_dir():
        return "missing"
    with lock(run.folder) as held:
        if held is None:
            return "running"
    if (run.folder / FAILED).is_file():
        return "failed"
    if complete(run.folder):
        return "completed"
    return "half" if (run.folder / config.FILE).is_file() else "missing"


def complete(folder: Path) -> bool:
    """Whether ``fit`` trained to the end, and tested if it does."""
    found = summary.read(folder)
    if found.get("fit", {}).get("ended") != "completed":
        return False
    return "test" in found or not (settings(folder).get("data") or {}).get("dataset")


def settings(folder: Path) -> dict[str, Any]:
    """What a run was started with; empty where that cannot be read."""
    try:
        found = yaml.load((folder / config.FILE).read_text("utf-8"), FAST)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def scores(folder: Path) -> dict[str, float | None]:
    """All ``val/*`` and ``test/*`` of a run; None is what was not finite."""
    found = summary.read(folder)
    return {**found.get("fit", {}).get("scores", {}), **found.get("test", {}).get("scores", {})}


def score(folder: Path, metric: str) -> float:
    """One score of a run; NaN where it has none."""
    found = scores(folder).get(metric)
    return math.nan if found is None else found


@contextmanager
def lock(folder: Path) -> Iterator[int | None]:
    """Hold a run's folder against all other processes; gives the open lock, to be handed on to a
    child, or None where another has it.

    It is free when all who hold it have ended, however they did.
    """
    held = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield held if taken(held) else None
    finally:
        os.close(held)


def taken(held: int) -> bool:
    """Whether the lock could be taken; who only looks holds it for a moment."""
    for _ in range(5):
        with suppress(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


def fail(folder: Path, reason: str, code: int) -> None:
    """Record that a run failed, in one line."""
    attempts = 1 + int(failure(folder).get("attempts", 0))
    write(
        folder / FAILED,
        json.dumps({"reason": " ".join(reason.split()), "exit": code, "attempts": attempts}) + "\n",
    )


def failure(folder: Path) -> dict[str, Any]:
    """What is recorded of a failed run; empty where it did not fail."""
    try:
        found = json.loads((folder / FAILED).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(path: Path, text: str) -> None:
    """A file, whole or not at all."""
    draft = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    draft.write_text(text, "utf-8")
    os.replace(draft, path)


def begin(plan: Plan, folder: Path, command: str) -> None:
    """Make the sweep's folder, with what it is told to hold.

    Raises:
        BadRun: it holds something else, or runs of other settings.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / SWEEP).is_file():
            raise BadRun(f"{folder} is not empty and holds no sweep. Name another with --run")
        for run in runs(plan, folder):
            differs(run, plan)
        write(folder / SWEEP, yaml.safe_dump(plan.tree(), sort_keys=False, allow_unicode=True))
        write(
            folder / CELLS,
            json.dumps({"command": command, "cells": cells(plan)}, indent=1, ensure_ascii=False)
            + "\n",
        )
    except OSError as error:
        raise BadRun(f"cannot make the sweep's folder {folder}: {error.strerror}") from None


def cells(plan: Plan) -> list[dict[str, Any]]:
    """What ``cells.json`` says of them."""
    return [
        {"name": one.name, "labels": one.labels, "settings": one.settings, "refused": one.refused}
        for one in plan.cells
    ]


def is_laid_out(plan: Plan, folder: Path) -> bool:
    """Whether the folder is this plan's already, but for which cells are refused."""
    try:
        tree, found = (
            yaml.load((folder / SWEEP).read_text("utf-8"), FAST),
            json.loads((folder / CELLS).read_text("utf-8")),
        )
        return bool(
            tree == plain(plan.tree())
            and [one["name"] for one in found["cells"]] == [one.name for one in plan.cells]
        )
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return False


def differs(run: Run, plan: Plan) -> None:
    """See that a run that is there is the one that the sweep file describes now.

    Raises:
        BadRun: naming what differs.
    """
    before = settings(run.folder)
    if not before:
        return
    recipes = run.cell.recipes
    wanted = {**recipes.get(run.tuned, next(iter(recipes.values()))), "seed": run.seed}
    found = differences(before, wanted, plan.tune.key if plan.tune and not run.tuned else "")
    if found:
        said = "; ".join(f"{name} was {old}, is {new}" for name, old, new in found[:3])
        raise BadRun(
            f"{run.folder} was run with other settings: {said}. Name another folder with --run, or remove that run"
        )


def differences(
    one: Mapping[str, Any], other: Mapping[str, Any], *allowed: str
) -> list[tuple[str, Any, Any]]:
    """Where two recipes differ in what changes a score: the key and its two values."""
    old, new = (config.leaves(plain(recipe)) for recipe in (one, other))
    free = {*ANY, *allowed}
    names = [
        name
        for name in sorted(old.keys() | new.keys())
        if name not in free and not name.startswith("trainer.logger.")
    ]
    pairs = [(name, old.get(name, "not set"), new.get(name, "not set")) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]


def plain(recipe: Mapping[str, Any]) -> Any:
    """As YAML gives it back."""
    return yaml.load(yaml.safe_dump(dict(recipe)), FAST)
