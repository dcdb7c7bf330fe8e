"""Threads and devices of each run."""

from dataclasses import replace

import pytest

from tests.sweep.files import sweep_file
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.run import resources
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
