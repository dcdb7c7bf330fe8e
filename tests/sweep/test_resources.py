"""Threads and devices of each run."""

import json
from dataclasses import replace

import pytest

from tests.sweep.files import sweep_file
from tfzoo.errors import BadOption, BadRun
from tfzoo.runs.folder import write_config
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.run import local, resources, state
from tfzoo.sweep.run.creation import create
from tfzoo.sweep.run.resources import slots, warn_of_other_threads


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


@pytest.mark.parametrize("value", ["two", "0", "-1"])
def test_a_number_of_threads_that_is_none_is_refused(plan, monkeypatch, value):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    with pytest.raises(BadOption, match=f"OMP_NUM_THREADS='{value}' is not a number of threads"):
        slots(plan, 1)


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


def test_threads_that_no_file_fixes_are_named_when_they_change(plan, tmp_path, capsys, monkeypatch):
    trained(plan, tmp_path, {"threads": 2})
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    local.run(plan, tmp_path, [], 1, lambda run, status: None)
    message = capsys.readouterr().err
    assert "norm=layer seed 1 was trained with 2 threads, further runs get 1" in message
    assert "set threads: 2 in the sweep file" in message
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    local.run(plan, tmp_path, [], 1, lambda run, status: None)
    assert capsys.readouterr().err == ""


def test_threads_do_not_count_on_a_gpu(plan, tmp_path, capsys):
    trained(plan, tmp_path, {"threads": 1, "gpus": ["H100"]})
    warn_of_other_threads(plan, tmp_path, 8)
    assert capsys.readouterr().err == ""
    (tmp_path / "sweep.yaml").touch()
    create(replace(plan, threads=2), tmp_path, "tfzoo sweep")
    assert "threads: 2" in (tmp_path / "sweep.yaml").read_text("utf-8")
