"""A configuration with which agents of Weights & Biases train the runs of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfzoo.runs.folder import as_yaml
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import state

GOALS = {"min": "minimize", "max": "maximize"}


def export(plan: Plan, folder: Path, seeds: str = "") -> str:
    """The YAML for ``wandb sweep``: a grid over one parameter, ``cell``, the number of a run. Each
    ``wandb agent`` runs ``tfzoo sweep ... --cell=I``, with ``--seeds`` if they are not the file's.
    """
    numbers = [run.number for run in state.planned_runs(plan, folder)]
    configuration: dict[str, Any] = {
        "name": folder.name,
        "method": "grid",
        "metric": {"name": plan.metric.name, "goal": GOALS[plan.metric.mode]},
        "parameters": {"cell": {"values": numbers}},
        "command": [
            "${env}",
            "tfzoo",
            "sweep",
            str(plan.file),
            "--run",
            str(folder.absolute()),
            *(["--seeds", seeds] if seeds else []),
            "${args}",
        ],
    }
    return as_yaml(configuration)
