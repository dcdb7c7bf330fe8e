"""The folder of a sweep: its creation, and the check that its runs have the same settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun
from tfzoo.runs.files import remove_leftovers, replace_text
from tfzoo.runs.folder import SCORELESS, as_yaml, plain, read_config, set_values
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import state
from tfzoo.sweep.run.state import Run

SWEEP, CELLS = "sweep.yaml", "cells.json"


def create(plan: Plan, folder: Path, command: str) -> None:
    """Create the sweep's folder, or update its sweep file and list of cells.

    Raises:
        BadRun: it holds something else, or runs with other settings.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / SWEEP).is_file():
            raise BadRun(f"{folder} is not empty and holds no sweep. Name another with --run")
        remove_leftovers(folder)
        for run in state.planned_runs(plan, folder):
            check_unchanged(run, plan)
        replace_text(folder / SWEEP, as_yaml(plan.to_dict()))
        kept = ("name", "labels", "settings", "refused")
        records = [{key: getattr(cell, key) for key in kept} for cell in plan.cells]
        cells = {"command": command, "cells": records}
        replace_text(folder / CELLS, json.dumps(cells, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise BadRun(f"cannot make the sweep's folder {folder}: {error.strerror}") from None


def is_created(plan: Plan, folder: Path) -> bool:
    """Whether the folder was created for this plan; which cells are refused is not compared."""
    file = folder / SWEEP
    made = file.is_file() and (folder / CELLS).is_file()
    return made and file.read_text("utf-8") == as_yaml(plan.to_dict())


def check_unchanged(run: Run, plan: Plan) -> None:
    """Check that a run in the folder has the settings that the sweep file asks for now.

    Raises:
        BadRun: naming what differs.
    """
    before = read_config(run.folder)
    if not before:
        return
    recipes = run.cell.recipes
    wanted = {**recipes.get(run.tuned, next(iter(recipes.values()))), "seed": run.seed}
    found = differences(before, wanted, plan.tune.key if plan.tune and not run.tuned else "")
    if found:
        listed = "; ".join(f"{name} was {old}, is {new}" for name, old, new in found[:3])
        raise BadRun(
            f"{run.folder} was run with other settings: {listed}. "
            "Name another folder with --run, or remove that run"
        )


def check_seeds(plan: Plan, folder: Path) -> None:
    """Check that a folder has no runs of other seeds than the plan's, which would leave them out
    of its report.

    Raises:
        BadRun: it has.
    """
    runs = [path.name for cell in plan.cells for path in (folder / cell.name).glob("seed-*")]
    if left_out := {int(name.removeprefix("seed-")) for name in runs} - {*plan.seeds}:
        raise BadRun(
            f"{folder} has runs of seed {', '.join(map(str, sorted(left_out)))}, which --seeds "
            "leaves out. Name them too, or another folder with --run"
        )


def differences(
    one: Mapping[str, Any], other: Mapping[str, Any], *ignored: str
) -> list[tuple[str, Any, Any]]:
    """The keys in which two recipes differ and that change scores, with both values."""
    old, new = (set_values(plain(recipe)) for recipe in (one, other))
    skipped = {*SCORELESS, *ignored}
    names = [
        name
        for name in sorted(old.keys() | new.keys())
        if name not in skipped and not name.startswith("trainer.logger.")
    ]
    pairs = [(name, old.get(name, "not set"), new.get(name, "not set")) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]
