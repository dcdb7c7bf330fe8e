"""Threads and devices of each run."""

import json
from dataclasses import replace

import pytest

from tests.sweep.files import sweep_file
from tfzoo.errors import BadRun
from tfzoo.runs.folder import write_config
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.run import resources, state
from tfzoo.sweep.run.creation import create
from tfzoo.sweep.run.resources import slots


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return load(sweep_file(tmp_path_factory.mktemp("file"), threads=None))


def threads(plan, jobs):
    return [slot["OMP_NUM_THREADS"] for slot in slots(plan, jobs)]


def test_threads_come_from_the_sweep_then_the_environment_then_the_cores(plan, monkeypatch):
    monkeypatch.setattr(resources, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads(plan, 2) == ["4", "4"]
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    assert threads(plan, 2) == ["3", "3"]
    assert threads(replace(plan, threads=2), 1) == ["2"]


def trained(plan, folder, hardware):
    """A first run that was trained on this hardware."""
    run = state.planned_runs(plan, folder)[0]
    run.folder.mkdir(parents=True)
    write_config(run.folder, run.recipe)
    summary = {"fit": {"ended": "completed", "hardware": hardware}}
    (run.folder / "summary.json").write_text(json.dumps(summary))


def test_a_changed_number_of_threads_is_refused_like_other_changed_settings(plan, tmp_path):
    trained(plan, tmp_path, {"threads": 1})
    (tmp_path / "sweep.yaml").touch()
    with pytest.raises(BadRun, match="run with other settings: threads was 1, is 2"):
        create(replace(plan, threads=2), tmp_path, "tfzoo sweep")


def test_threads_do_not_count_on_a_gpu(plan, tmp_path):
    trained(plan, tmp_path, {"threads": 1, "gpus": ["H100"]})
    (tmp_path / "sweep.yaml").touch()
    create(replace(plan, threads=2), tmp_path, "tfzoo sweep")
    assert "threads: 2" in (tmp_path / "sweep.yaml").read_text("utf-8")
