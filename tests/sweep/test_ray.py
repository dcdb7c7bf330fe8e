"""Runs as tasks of a Ray cluster of two machines on this one; one dies in the middle."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep.files import LEARNS, sweep_file
from tests.sweep.stand_in import Sweep
from tests.waiting import soon
from tfzoo.errors import BadRun
from tfzoo.runs.folder import holding, read_summary
from tfzoo.sweep.plan.sweep_file import parse
from tfzoo.sweep.run import ray, runs_csv
from tfzoo.sweep.run.cluster import LOST, Cluster, Ended, Job, gpus_per_run
from tfzoo.sweep.run.local import threads_per_run

MEASURED = ("tokens_per_second", "train_seconds", "peak_memory")
MEASURED += ("checkpoint_path", "run_folder", "hostname")


@pytest.fixture
def cluster(monkeypatch):
    """A head that takes no runs, and two machines that take one each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "300")
    # else Ray's processes wait for all others on a busy machine
    monkeypatch.setenv("RAY_worker_niceness", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    made.machines = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    made.shutdown()


def machine_of(process):
    """The raylet that a process descends from."""
    while process > 1:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if words[0].endswith(b"/raylet"):
            return process
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def trainings(folder):
    """The processes that train in a sweep's folder, with their run."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            output = path.readlink()
        except OSError:
            continue
        if output.is_relative_to(folder):
            found[int(path.parts[2])] = str(output.parent)
    return found


@pytest.mark.nightly
def test_runs_of_a_lost_machine_run_again_elsewhere(cluster, tmp_path):
    steps = {"trainer.max_steps": 400, "trainer.val_check_interval": 100}
    file = sweep_file(tmp_path, overrides={**LEARNS, **steps})
    words = [sys.executable, "-m", "tfzoo", "sweep", str(file), "--run"]
    with (tmp_path / "ray.txt").open("wb") as output:
        command = [*words, str(tmp_path / "ray"), "--engine", "ray"]
        driver = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        two = soon(lambda: len(found := trainings(tmp_path / "ray")) == 2 and found, 600)
        machines = {machine_of(process): run for process, run in two.items()}
        assert len(machines) == 2, "one run on each machine"
        lost = cluster.machines[1]
        raylet = lost.all_processes["raylet"][0].process.pid
        soon(lambda: list(Path(machines[raylet], "checkpoints").glob("*")), 600)
        cluster.remove_node(lost, allow_graceful=False)
        gone = next(process for process, run in two.items() if run == machines[raylet])
        soon(lambda: not Path(f"/proc/{gone}").exists())
        assert driver.wait(1200) == 0, (tmp_path / "ray.txt").read_text()
    finally:
        driver.kill()
    said = (tmp_path / "ray.txt").read_text()
    assert "raylet" not in said
    assert "its machine was lost; it runs again on another" in said
    attempts = read_summary(Path(machines[raylet]))["fit"]["attempts"]
    assert attempts[-1]["from"] > 0, "from its last checkpoint"
    subprocess.run([*words, str(tmp_path / "local")], check=True, capture_output=True)
    ours, local = (rows(tmp_path / name) for name in ("ray", "local"))
    assert len(ours) == 4
    assert ours == local, "the same table, number for number"


def rows(folder):
    table = runs_csv.table(folder)
    return [{key: one for key, one in row.items() if key not in MEASURED} for row in table]


@pytest.mark.nightly
def test_what_becomes_of_runs_on_a_cluster(cluster, tmp_path, monkeypatch):
    """One cluster for two promises, as it takes long to start."""
    sweep = Sweep(tmp_path, ["layer", "broken", "rms", "none"], 1.0, monkeypatch)
    assert ray.run(sweep.plan, sweep.folder, sweep.runs, None, sweep.update) == 0
    assert sweep.statuses() == ["completed", "failed", "completed", "completed"]
    assert "it broke (exit code 1)" in str(sweep.runs[1].outcome.reason)
    assert sorted(sweep.did("end")) == ["layer", "none", "rms"]

    (tmp_path / "second").mkdir()
    sweep = Sweep(tmp_path / "second", ["layer", "rms"], 600, monkeypatch)
    sweep.interrupt_when(lambda: len(sweep.did("begin")) == 2)
    assert ray.run(sweep.plan, sweep.folder, sweep.runs, None, sweep.update) == 130
    assert sorted(sweep.did("stop")) == ["layer", "rms"], "they could end with a checkpoint"


def test_a_machine_that_does_not_see_the_folder_is_named(tmp_path, monkeypatch):
    sweep = Sweep(tmp_path, ["layer"], 1.0, monkeypatch)
    ended = Job(tmp_path / "elsewhere", [])()
    with pytest.raises(BadRun, match=f"{ended.host} does not see {sweep.runs[0].folder}: name a"):
        Cluster(sweep.plan, sweep.folder, sweep.update).settle(sweep.runs[0], ended)


def test_an_address_without_a_cluster_is_an_error(tmp_path, monkeypatch):
    class Absent:
        def init(self, **words):
            raise ConnectionError("Failed to connect to here:1\nmore")

    monkeypatch.setattr(ray, "require", lambda *words: Absent())
    sweep = Sweep(tmp_path, ["layer"], 1.0, monkeypatch)
    with pytest.raises(BadRun, match=r"^no Ray cluster: Failed to connect to here:1$"):
        ray.run(sweep.plan, sweep.folder, sweep.runs, None, sweep.update)


def test_a_run_is_over_when_its_folder_says_so(tmp_path, monkeypatch):
    sweep = Sweep(tmp_path, ["layer"], 1.0, monkeypatch)
    (run,), policy = sweep.runs, Cluster(sweep.plan, sweep.folder, sweep.update)
    for _ in range(10):
        assert policy.settle(run, Ended(LOST)) is None, "a lost machine is no failure of the run"
    with_lock = Ended(1, "maple", "another is at it")
    run.folder.mkdir(parents=True)
    with holding(run.folder):
        for _ in range(10):
            assert policy.settle(run, with_lock) is None
    silent = Ended(1, "maple", "No module named tfzoo")
    assert policy.settle(run, silent) == "failed"
    assert run.outcome.reason == "on maple: No module named tfzoo (exit code 1)"
    assert policy.settle(run, Ended(LOST)) == "failed"


def test_gpus_are_requested_if_runs_train_on_them(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    tree = {"recipe": "translation/numbers", "axes": {"model.norm": ["rms"]}, "seeds": [1]}
    tree |= {"metric": {"name": "val/loss", "mode": "min"}, "devices": 2}
    drawn = parse(tmp_path / "tiny.yaml", tree)
    assert (gpus_per_run(drawn), threads_per_run(drawn)) == (2, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_per_run(drawn) == 3
    drawn.cells[0].recipes[""] = {"trainer": {"accelerator": "cpu"}}
    assert gpus_per_run(drawn) == 0
