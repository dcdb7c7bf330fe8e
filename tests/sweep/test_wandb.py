"""The configuration for agents of Weights & Biases, and the runs of a sweep as one group of its."""

import pytest
import yaml

from tests.sweep.files import Trainings, sweep_file
from tests.sweep.stand_in import Sweep
from tfzoo.commands.sweep import make_parser
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.run import execution, local, state
from tfzoo.sweep.run.job import wandb_sweep

WHOLE, LAST = 1, 4


@pytest.mark.nightly  # W&B's agent imports for seconds
def test_an_agent_runs_each_cell_by_its_number(tmp_path, monkeypatch):
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    sweep = Sweep(tmp_path, ["layer", "rms", "none"], 1.0, monkeypatch)
    made = yaml.safe_load(wandb_sweep(sweep.plan, sweep.folder))
    assert (made["method"], made["metric"]) == ("grid", {"name": "val/loss", "goal": "minimize"})
    assert made["parameters"] == {"cell": {"values": [0, 1, 2]}}
    chosen = create_sweep_command_args({"args": {"cell": {"value": 2}}})
    command = [
        word
        for part in create_sweep_command(made["command"])
        for word in chosen.get(part[2:-1], [part] if part != "${env}" else [])
    ]
    assert command[:2] == ["tfzoo", "sweep"]
    given = make_parser().parse(command[2:])
    assert given is not None
    assert (given.file, given.run, given.cell) == (str(sweep.plan.file), str(sweep.folder), 2)


def test_a_training_gets_its_group_its_threads_and_no_rank(tmp_path, monkeypatch):
    trainings = Trainings(monkeypatch)
    monkeypatch.delenv("WANDB_RUN_GROUP", raising=False)
    monkeypatch.setenv("RANK", "1")
    plan, folder = load(sweep_file(tmp_path, threads=3)), tmp_path / "tiny"
    run = state.planned_runs(plan, folder)[0]
    assert execution.command(run, plan)[3:6] == ("--run", str(run.folder), "--seed=1")
    local.run(plan, folder, [run], 1, lambda run, status: None)
    env = trainings.environment
    assert (env["WANDB_RUN_GROUP"], env["OMP_NUM_THREADS"], "RANK" in env) == ("tiny", "3", False)
