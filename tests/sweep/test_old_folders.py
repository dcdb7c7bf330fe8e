"""Folders that sweeps of tfzoo 0.1 wrote are read: status, report and settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.sweep.files import METRIC, Trainings, sweep_file
from tests.sweep.made import make
from tfzoo.sweep import state
from tfzoo.sweep.cell import execute
from tfzoo.sweep.folder import create, is_created
from tfzoo.sweep.load import load
from tfzoo.sweep.results import gather

CELLS = [
    {"name": f"norm={norm}", "labels": {"model.norm": norm}, "settings": {"model.norm": norm}}
    for norm in ("layer", "rms")
]


def test_runs_of_an_old_folder_are_found_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files: no timing.json, a lock that is an empty file, cells with an empty ``refused``."""
    trainings = Trainings(monkeypatch)
    plan, folder = load(sweep_file(tmp_path)), tmp_path / "old"
    create(plan, folder, "tfzoo sweep tiny.yaml")
    cells = {"command": "tfzoo sweep", "cells": [{**cell, "refused": ""} for cell in CELLS]}
    (folder / "cells.json").write_text(json.dumps(cells))
    (folder / "sweep.yaml").write_text(yaml.safe_dump(plan.to_dict(), sort_keys=False))
    runs = state.planned_runs(plan, folder)
    for run in runs:
        execute(run, plan)
        (run.folder / "timing.json").unlink()
        (run.folder / "lock").write_bytes(b"")
    failed = runs[1].folder / "failed.json"
    failed.write_text('{"reason": "it broke", "exit": 1, "attempts": 1}\n')
    assert is_created(plan, folder)
    assert [state.status(run) for run in runs] == ["completed", "failed", "completed", "completed"]
    assert [execute(run, plan) for run in runs].count("completed") == 3
    assert len(trainings.trained) == 4
    assert state.wall_seconds(runs[0].folder) is None
    assert state.training_seconds(runs[0].folder) == 2.0


def test_an_old_folder_has_a_report(tmp_path: Path) -> None:
    """``made`` writes what 0.1 wrote; a sweep file of 0.1 may have its defaults left out."""
    folder = make(tmp_path / "norms", (1, 2), ("layer", "rms"), ("sinusoidal", "rotary"))
    file = yaml.safe_load((folder / "sweep.yaml").read_text("utf-8"))
    least = {key: file[key] for key in ("recipe", "axes", "seeds")} | {"metric": METRIC}
    (folder / "sweep.yaml").write_text(yaml.safe_dump(least), "utf-8")
    results = gather([folder])
    assert [len(cell.done) for cell in results.cells] == [2, 2, 2, 2]
