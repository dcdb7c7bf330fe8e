"""Tuning: the best value of one key for each cell, by validation score, with a seed of its own."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tfzoo.base.files import object_of, replace_text
from tfzoo.base.loading import task_class
from tfzoo.errors import BadRun
from tfzoo.sweep.plan.sweep_file import Metric, Plan, file_name
from tfzoo.sweep.run.state import Notify, Run, record_failure

FILE = "tuned.json"


def trials(run: Run, plan: Plan) -> list[Run]:
    """The runs that try the values for a run's cell; all its seeds share them."""
    if plan.tune is None:
        return []
    folder, seed = run.folder.parent / "tune", plan.tune.seed
    return [
        replace(
            run,
            seed=seed,
            folder=folder / file_name(label),
            metrics=(metric(run, plan).name,),
            number=-1,
            tuned=label,
        )
        for label in plan.tune.values
    ]


def metric(run: Run, plan: Plan) -> Metric:
    """The metric by which a value is chosen: the sweep's if it is a ``val/`` score, else the one by
    which the recipe keeps its best checkpoint.
    """
    if plan.module or plan.metric.name.startswith("val/"):
        return plan.metric
    recipe = next(iter(run.cell.recipes.values()))
    checkpoint: dict[str, Any] = recipe["checkpoint"]
    task: Any = task_class(recipe["task"])
    monitor = checkpoint.get("monitor") or task.monitor
    return Metric(monitor, checkpoint.get("mode") or task.mode(monitor))


def tuned(run: Run, plan: Plan) -> Run | None:
    """The run with the value that was chosen for its cell; None if none was chosen yet."""
    found = object_of(run.folder.parent / FILE)
    if not found:
        return None
    if (
        plan.tune is None
        or found.get("key") != plan.tune.key
        or found.get("tried") != [*plan.tune.values]
        or found.get("metric") != metric(run, plan).name
    ):
        tried = f"{found.get('key')} {found.get('tried')} by {found.get('metric')}"
        raise BadRun(
            f"{run.folder.parent / FILE}: was tuned with {tried}, which the sweep file has "
            "changed. Name another folder with --run"
        )
    return replace(run, tuned=found["label"])


def decided(runs: Sequence[Run], plan: Plan, on_change: Notify) -> list[Run]:
    """The runs with the best value of their cells, where all were tried. A run for which no value
    could be trained has failed.
    """
    found = []
    for run in runs:
        tried = [] if (chosen := tuned(run, plan)) else trials(run, plan)
        if not all(trial.outcome.is_over for trial in tried):
            continue
        chosen = chosen or decide(run, plan)
        if chosen.tuned:
            found.append(chosen)
        else:
            reasons = [f"{one.tuned}: {one.outcome.reason}" for one in tried]
            record_failure(run.folder, f"no value could be trained: {'; '.join(reasons)}")
            on_change(run, "failed")
    return found


def decide(run: Run, plan: Plan) -> Run:
    """Choose the best value and record it in ``tuned.json``."""
    by = metric(run, plan)
    good = {
        trial.tuned: score
        for trial in trials(run, plan)
        if trial.outcome.state == "completed" and (score := trial.scores[by.name]) is not None
    }
    if plan.tune is None or not good:
        return run
    label = (min if by.mode == "min" else max)(good, key=good.__getitem__)
    chosen = {
        "key": plan.tune.key,
        "value": plan.tune.values[label],
        "label": label,
        "metric": by.name,
        "mode": by.mode,
    }
    replace_text(
        run.folder.parent / FILE,
        json.dumps({**chosen, "tried": [*plan.tune.values], "scores": good}) + "\n",
    )
    return replace(run, tuned=label)
