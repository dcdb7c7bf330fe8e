"""Sweeps without what POSIX alone has; tests/test_platforms.py imports every module without it."""

import signal

import pytest

from tests.sweep.files import Trainings, sweep_file
from tfzoo.errors import BadOption
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.run import job, local, state


def test_a_sweep_trains_where_there_are_no_process_groups(tmp_path, monkeypatch):
    trainings = Trainings(monkeypatch)
    monkeypatch.setattr(local, "CODES", [signal.SIGINT, signal.SIGTERM])
    plan = load(sweep_file(tmp_path))
    runs = state.planned_runs(plan, tmp_path)
    assert local.run(plan, tmp_path, runs, 1, lambda run, status: None) == 0
    assert len(trainings.trained) == 4


def test_an_engine_is_refused_on_windows(monkeypatch):
    monkeypatch.setattr(job, "IS_POSIX", False)
    with pytest.raises(BadOption, match="--engine slurm needs Linux or macOS"):
        job.load_library("slurm", "submitit")
