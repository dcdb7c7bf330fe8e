"""Runs as SLURM jobs, with a stand-in for SLURM's commands."""

import json
import os
import shutil
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

from tests.sweep.stand_in import Sweep
from tests.waiting import soon
from tfzoo.errors import BadOption, TfzooError
from tfzoo.sweep.plan.sweep_file import Budget
from tfzoo.sweep.run import cluster as clusters
from tfzoo.sweep.run import slurm

COMMANDS = Path(__file__).with_name("slurm_commands.py")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A machine with SLURM's commands; the folder holds what they keep."""
    home, commands = tmp_path / "slurm", tmp_path / "bin"
    home.mkdir()
    commands.mkdir()
    for name in ("sbatch", "srun", "sacct", "scancel"):
        shutil.copy(COMMANDS, commands / name)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STAND_IN", str(home))
    monkeypatch.setattr(clusters, "POLL_SECONDS", 0.4)  # each starts a process
    # which remembers jobs of this process, whose numbers begin anew
    monkeypatch.setattr(SlurmJob, "watcher", SlurmInfoWatcher())
    yield home
    for path in home.glob("*.pid"):
        if (home / path.stem).read_text() == "RUNNING":
            os.killpg(int(path.read_text()), signal.SIGKILL)


def test_all_runs_are_one_array_and_a_broken_one_has_its_reason(cluster, tmp_path, monkeypatch):
    sweep = Sweep(tmp_path, ["broken", "rms"], 0.2, monkeypatch)
    plan = replace(sweep.plan, threads=3, devices=2, budget=Budget(steps=10, time="00:50:00"))
    assert slurm.run(plan, sweep.folder, sweep.runs, 2, sweep.update) == 0
    assert sweep.statuses() == ["failed", "completed"]
    assert sweep.did("end") == ["rms"]
    assert str(sweep.runs[0].outcome.reason).endswith(": it broke (exit code 1)")
    assert len(sweep.did("begin")) == 2
    script = (cluster / "41.sh").read_text()
    asked = "array=0-1%2 cpus-per-task=3 gpus-per-node=2 time=60 job-name=tfzoo-tiny"
    for option in asked.split():
        assert f"#SBATCH --{option}\n" in script
    assert [status for name, status in sweep.heard if name == "rms"][-1] == "completed"


@pytest.mark.nightly
def test_jobs_outlive_the_sweep_which_finds_them_again(cluster, tmp_path, monkeypatch, capsys):
    sweep = Sweep(tmp_path, ["layer", "rms", "none"], 1.2, monkeypatch)
    sweep.interrupt_when(lambda: sweep.did("begin"))
    assert slurm.run(sweep.plan, sweep.folder, sweep.runs, 1, sweep.update) == 130
    assert "To end them: scancel 41. " in capsys.readouterr().err
    assert "completed" not in sweep.statuses()
    assert slurm.run(sweep.plan, sweep.folder, sweep.runs, 1, sweep.update) == 0
    assert sweep.statuses() == ["completed"] * 3
    assert sorted(sweep.did("begin")) == ["layer", "none", "rms"], "no run had a second job"
    assert len(list(cluster.glob("*.sh"))) == 1
    assert "found 3 runs" in capsys.readouterr().err


def test_what_a_person_cancels_is_not_submitted_again(cluster, tmp_path, monkeypatch):
    sweep = Sweep(tmp_path, ["layer"], 60, monkeypatch)

    def cancel():
        soon(lambda: sweep.did("begin"))
        os.system("scancel 41")

    thread = threading.Thread(target=cancel)
    thread.start()
    monkeypatch.setattr(clusters, "CHECKPOINT_SECONDS", 0.1)
    slurm.run(sweep.plan, sweep.folder, sweep.runs, None, sweep.update)
    thread.join()
    assert len(list(cluster.glob("*.sh"))) == 1
    assert sweep.runs[0].outcome.state != "failed"


@pytest.mark.nightly
def test_a_job_whose_machine_was_lost_is_submitted_again(cluster, tmp_path, monkeypatch):
    sweep = Sweep(tmp_path, ["layer"], 1.0, monkeypatch)
    (cluster / "40").write_text("NODE_FAIL")
    (sweep.folder / slurm.FILE).write_text(json.dumps({"norm=layer seed 1": "40"}))
    assert slurm.run(sweep.plan, sweep.folder, sweep.runs, None, sweep.update) == 0
    assert sweep.statuses() == ["completed"]
    assert json.loads((sweep.folder / slurm.FILE).read_text()) == {"norm=layer seed 1": "41"}


def test_without_slurm_it_says_where_to_start(tmp_path, monkeypatch):
    sweep = Sweep(tmp_path, ["layer"], 0.2, monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadOption, match="needs SLURM's commands"):
        slurm.run(sweep.plan, sweep.folder, sweep.runs, None, sweep.update)


@pytest.mark.parametrize("code", ["import no_such_library", "1 / 0"])
def test_without_its_library_an_engine_says_how_to_install_it(code, tmp_path, monkeypatch):
    sweep = Sweep(tmp_path, ["layer"], 0.2, monkeypatch)
    (tmp_path / "submitit.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "submitit", raising=False)
    with pytest.raises(TfzooError, match=r"pip install 'tfzoo\[slurm\]'"):
        slurm.run(sweep.plan, sweep.folder, sweep.runs, None, sweep.update)
