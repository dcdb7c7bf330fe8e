"""Successive halving over cells: all runs of a sweep pause after as many steps, the worst cells are
pruned, and the runs of the others go on.

A run that paused has ``rungs.json`` in its folder: its score at each rung. A cell that was pruned
has ``pruned.json`` in its own: why. Its runs keep what they have, and are not judged.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tfzoo.base.bounded_files import object_of
from tfzoo.base.scores import format_score
from tfzoo.base.terminal import notify
from tfzoo.errors import BadRun
from tfzoo.runs.files import replace_text
from tfzoo.runs.folder import is_complete, read_summary
from tfzoo.runs.logged import logged_curves
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import state, tune
from tfzoo.sweep.run.state import PRUNED, Run

RUNGS = "rungs.json"

Train = Callable[[Sequence[Run], int | None], int]
"""Trains runs up to a rung, or to their end; returns the exit code of a signal, else 0."""
Notify = Callable[[Run, str], object]


def run(plan: Plan, folder: Path, runs: Sequence[Run], train: Train, on_change: Notify) -> int:
    """Train ``runs`` to their end, or until their cell is pruned; returns the exit code of a
    signal, else 0.

    If a run was stopped before its rung, nothing more is trained: the cells cannot be compared.
    """
    for rung in plan.prune.rungs(steps(plan)) if plan.prune else ():
        # Cells that this rung has pruned are among those that it compares.
        left = [
            run
            for run in state.planned_runs(plan, folder)
            if decision(run).get("step", rung) >= rung
        ]
        while missing := [run for run in left if not has_reached(run, rung)]:
            if code := train(missing, rung):
                return code
            missing = [run for run in missing if not has_reached(run, rung)]
            if missing and not any(state.status(run) == "running" for run in missing):
                return 0
            time.sleep(tune.POLL_SECONDS * bool(missing))  # another process is training them
        decide(plan, left, rung, on_change)
    return train([run for run in runs if not state.is_pruned(run)], None)


def steps(plan: Plan) -> int:
    """The steps of a run, equal for all cells: :func:`tfzoo.sweep.plan.load.load` sees to it."""
    recipes = [next(iter(cell.recipes.values())) for cell in plan.cells if cell.recipes]
    return int(recipes[0]["trainer"]["max_steps"]) if recipes else 0


def has_reached(run: Run, rung: int) -> bool:
    """Whether a run paused at a rung, was completed, or failed."""
    if str(rung) in object_of(run.folder / RUNGS):
        return True
    return state.status(run) in state.OVER


def pause(run: Run, plan: Plan, rung: int) -> bool:
    """Record the score of a run that stopped after ``rung`` steps; returns whether it had come as
    far.
    """
    if read_summary(run.folder).get("fit", {}).get("steps", 0) <= rung:
        return False
    found = {**object_of(run.folder / RUNGS), str(rung): score(run, plan, rung)}
    replace_text(run.folder / RUNGS, json.dumps(found) + "\n")
    return True


def score(run: Run, plan: Plan, rung: int) -> float | None:
    """The last score of a run within its first ``rung`` steps; None if it has none, or one that is
    not finite.
    """
    curve = logged_curves(run.folder).get(tune.metric(run, plan).name, {})
    values = [value for step, value in curve.items() if step <= rung]
    return values[-1] if values and math.isfinite(values[-1]) else None


def decide(plan: Plan, runs: Sequence[Run], rung: int, on_change: Notify) -> None:
    """Prune the cells with the worst mean scores over their seeds. The baseline is never pruned,
    nor a cell whose runs are completed.

    What was decided once stays, also if it was interrupted or a failed run was repeated since.
    """
    cells: dict[str, list[Run]] = {}
    for run in runs:
        if run.cell.labels != plan.baseline:
            cells.setdefault(run.cell.name, []).append(run)
    before = (decision(own[0]) for own in cells.values())
    found = next((one for one in before if one.get("step") == rung), None)
    if found is None:
        found = compare(plan, cells, rung)
    for name in list(found["scores"])[found["kept"] :]:
        own = cells[name]
        path = own[0].folder.parent / PRUNED
        if not path.is_file() and not all(is_complete(run.folder) for run in own):
            replace_text(path, json.dumps(found) + "\n")
            for run in own:
                on_change(run, "pruned")


def compare(plan: Plan, cells: Mapping[str, Sequence[Run]], rung: int) -> dict[str, Any]:
    """What a rung decides: all cells with their scores, the best first, and how many go on. A seed
    without a score is left out; a cell without any is the worst.
    """
    metric = tune.metric(next(iter(cells.values()))[0], plan) if cells else plan.metric
    scores = {name: mean_score(own, plan, rung) for name, own in cells.items()}
    kept = plan.prune.kept(len(cells)) if plan.prune else len(cells)
    if all(one is None for one in scores.values()):
        notify(f"nothing is pruned after {rung:,} steps: no run has a {metric.name} by then")
        kept = len(cells)
    ranked = {name: scores[name] for name in rank(scores, metric.mode)}
    return {"step": rung, "metric": metric.name, "scores": ranked, "kept": kept, **planned(plan)}


def rank(scores: Mapping[str, float | None], mode: str) -> list[str]:
    """Cells from the best score to the worst, which is none."""
    sign = 1 if mode == "min" else -1
    return sorted(
        scores, key=lambda name: math.inf if (one := scores[name]) is None else sign * one
    )


def mean_score(runs: Sequence[Run], plan: Plan, rung: int) -> float | None:
    """The mean score of a cell at a rung; None if no seed has one."""
    found = []
    for run in runs:
        recorded = object_of(run.folder / RUNGS)
        one = recorded[str(rung)] if str(rung) in recorded else score(run, plan, rung)
        if one is not None and run.outcome.state not in ("diverged", "failed"):
            found.append(float(one))
    return fmean(found) if found else None


def decision(run: Run) -> dict[str, Any]:
    """What decided that a run's cell was pruned; empty if it was not."""
    return object_of(run.folder.parent / PRUNED)


def reason(found: Mapping[str, Any], cell: str) -> str:
    """Why a cell was pruned, in words."""
    scores, name = found.get("scores") or {}, str(found.get("metric", ""))
    value, place = scores.get(cell), [*scores, cell].index(cell) + 1
    shown = f"no {name}" if value is None else f"{name} {format_score(name, float(value))}"
    return (
        f"pruned after {found.get('step', 0):,} steps: {shown}, place {place} of {len(scores)}, "
        f"of which {found.get('kept')} went on"
    )


def planned(plan: Plan) -> dict[str, Any]:
    """What must not change once a cell was pruned: others would have been."""
    return {
        "prune": vars(plan.prune) if plan.prune else None,
        "seeds": plan.seeds,
        "cells": [cell.name for cell in plan.cells],
    }


def check_unchanged(plan: Plan, folder: Path) -> None:
    """Check that cells were pruned by this plan. A plan that does not prune trains them to the end.

    Raises:
        BadRun: naming what has changed.
    """
    for cell in plan.cells:
        path = folder / cell.name / PRUNED
        if not (found := object_of(path)):
            continue
        if plan.prune is None:
            path.unlink()
            continue
        for key, value in planned(plan).items():
            if found.get(key) != value:
                raise BadRun(
                    f"{folder}: {cell.name} was {reason(found, cell.name)}; since then "
                    f"{key} of the sweep file changed. Name another folder with --run, or remove "
                    "prune to train all cells to the end"
                )
