"""The environment of a training: its group in Weights & Biases, its threads."""

from tests.sweep.files import Trainings, sweep_file
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.run import execution, local, state


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
