"""The value of one key for each cell, chosen on the validation split with a seed that nothing is
judged by.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tfzoo.config.sections import task_class
from tfzoo.errors import BadRun
from tfzoo.sweep import layout, state
from tfzoo.sweep.plan import Metric, Plan
from tfzoo.sweep.state import Run, Status

FILE = "tuned.json"
TICK = 0.5


def trials(run: Run, plan: Plan) -> list[Run]:
    """The runs that try the values for a run's cell, the same for all its seeds."""
    if plan.tune is None:
        return []
    folder, seed = run.folder.parent / "tune", plan.tune.seed
    return [
        Run(run.cell, seed, folder / layout.safe(label), -1, label) for label in plan.tune.values
    ]


def metric(run: Run, plan: Plan) -> Metric:
    """By what values are chosen: the sweep's metric if that is of the validation split, else what
    the recipe keeps its best by.
    """
    if plan.metric.name.startswith("val/"):
        return plan.metric
    recipe = next(iter(run.cell.recipes.values()))
    kept: dict[str, Any] = recipe["checkpoint"]
    return Metric(
        kept.get("monitor") or task_class(recipe["task"]).monitor, kept.get("mode", "max")
    )


def tuned(run: Run, plan: Plan) -> Run | None:
    """The run with the value that was chosen for its cell, if it was.

    Raises:
        BadRun: it was chosen among other values.
    """
    try:
        found = json.loads((run.folder.parent / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if (
        plan.tune is None
        or found.get("key") != plan.tune.key
        or found.get("tried") != [*plan.tune.values]
    ):
        tried = f"{found.get('key')} {found.get('tried')}"
        raise BadRun(
            f"{run.folder.parent / FILE}: was tuned with {tried}, is to be with another. Name another folder with --run"
        )
    return replace(run, tuned=found["label"])


def choose(run: Run, plan: Plan, execute: Callable[[Run], Status]) -> Run | None:
    """The run with the best value; ``tuned`` stays empty where every value failed, None is returned
    where a signal came between.

    Values that another process is trying are waited for.
    """
    while (chosen := tuned(run, plan)) is None:
        found = {execute(trial) for trial in trials(run, plan)}
        if found <= {"completed", "failed"}:
            return decide(run, plan)
        if "half" in found:
            return None
        time.sleep(TICK)
    return chosen


def decide(run: Run, plan: Plan) -> Run:
    """Take the best value and write down which."""
    by = metric(run, plan)
    good = {
        trial.tuned: state.score(trial.folder, by.name)
        for trial in trials(run, plan)
        if not state.failure(trial.folder)
    }
    if plan.tune is None or not good:
        return run
    label = (min if by.mode == "min" else max)(good, key=lambda label: good[label])
    found = {
        "key": plan.tune.key,
        "value": plan.tune.values[label],
        "label": label,
        "metric": by.name,
        "mode": by.mode,
    }
    state.write(
        run.folder.parent / FILE,
        json.dumps({**found, "tried": [*plan.tune.values], "scores": good}) + "\n",
    )
    return replace(run, tuned=label)


def failure(run: Run, plan: Plan) -> str:
    """Why no value could be taken."""
    reasons = {
        trial.tuned: state.failure(trial.folder).get("reason", "") for trial in trials(run, plan)
    }
    return f"no value of {plan.tune.key if plan.tune else ''} could be trained: " + "; ".join(
        f"{one}: {why}" for one, why in reasons.items()
    )
