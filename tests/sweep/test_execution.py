"""Runs of this machine from their folder to their end, with a stand-in for training."""

import json
import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from tests.sweep.files import Ended, Trainings, sweep_file
from tfzoo.errors import BadRun
from tfzoo.runs.folder import holding, read_config, write_config, write_summary
from tfzoo.sweep.plan.load import load
from tfzoo.sweep.plan.sweep_file import Budget
from tfzoo.sweep.run import local, state, tune
from tfzoo.sweep.start import create, seconds_left


@pytest.fixture
def trainings(monkeypatch):
    return Trainings(monkeypatch)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return load(sweep_file(tmp_path_factory.mktemp("file")))


@pytest.fixture(scope="module")
def tuning(tmp_path_factory):
    tune = {"key": "optim.lr", "values": [1e-3, 3e-3]}
    return load(sweep_file(tmp_path_factory.mktemp("file"), tune=tune))


@pytest.fixture
def run(plan, tmp_path, trainings):
    """One that has not begun."""
    return state.planned_runs(plan, tmp_path)[0]


def reason(run):
    return str(run.outcome.reason)


def complete(run, plan, told=lambda run, status: None):
    """What a run of this machine comes to, and whether a signal stopped it."""
    local.run(plan, run.folder.parents[1], [run], 1, told)
    return run.status


def test_a_run_is_trained_once(run, plan, trainings):
    assert run.status == "missing"
    told = []
    for _ in range(2):
        assert complete(run, plan, lambda _, status: told.append(status)) == "completed"
    assert trainings.trained == ["norm=layer seed 1"]
    assert told[:2] == ["running", "completed"]
    assert run.status == "completed"


def test_a_run_that_did_not_test_is_not_complete(run, plan, trainings):
    complete(run, plan)
    summary = json.loads((run.folder / "summary.json").read_text())
    (run.folder / "summary.json").write_text(json.dumps({"fit": summary["fit"]}))
    assert run.status == "interrupted"
    assert complete(run, plan) == "completed"
    assert len(trainings.trained) == 2


def test_two_processes_do_not_work_on_one_run(run, plan, trainings):
    run.folder.mkdir(parents=True)
    with holding(run.folder):
        assert run.status == "running"
        assert complete(run, plan) == "running"
    assert trainings.trained == []


@pytest.mark.parametrize(
    ("changes", "scores", "state_of"),
    [
        ({}, {}, "completed"),
        ({}, {"": None}, "diverged"),
        ({}, {"": 3.0}, "learnt nothing"),
        ({"budget": {"time": "00:00:02"}, "overrides": {"trainer.max_steps": 9}}, {}, "failed"),
        ({"metric": {"name": "val/chrf", "mode": "max"}}, {}, "failed"),
    ],
)
def test_a_run_that_ends_while_its_sweep_is_killed_comes_to_the_same(
    tmp_path, trainings, monkeypatch, changes, scores, state_of
):
    trainings.scores, trainings.constant_loss = scores, 2.0
    plan = load(sweep_file(tmp_path, **changes))
    watched, alone = (state.planned_runs(plan, tmp_path / name)[0] for name in ("one", "other"))
    assert complete(watched, plan) == state_of

    def killed(*args):
        trainings.start(*args)
        raise SystemExit  # the sweep does not see how it ended

    monkeypatch.setattr(local, "start", killed)
    with pytest.raises(SystemExit):
        complete(alone, plan)
    assert alone.outcome == watched.outcome
    monkeypatch.setattr(local, "start", trainings.start)
    trainings.trained.clear()
    assert complete(alone, plan) == state_of
    assert trainings.trained == []


def test_a_run_that_ran_out_of_time_goes_on_when_it_gets_more(tmp_path, trainings):
    cut = {"budget": {"time": "00:00:02"}, "overrides": {"trainer.max_steps": 9}}
    plan = load(sweep_file(tmp_path, **cut))
    run = state.planned_runs(plan, tmp_path / "one")[0]
    assert complete(run, plan) == "failed"
    assert replace(run, budget=Budget(time="00:10:00")).outcome.state == "interrupted"


@pytest.mark.parametrize(("code", "summary"), [(-15, "running"), (-9, "running"), (130, "test")])
def test_a_run_that_is_interrupted_goes_on_at_the_next_start(
    run, plan, trainings, monkeypatch, code, summary
):

    def interrupted(run, *rest):
        run.folder.mkdir(parents=True)
        write_config(run.folder, run.recipe)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        if summary == "test":  # trained to its end
            write_summary(run.folder, "fit", {"ended": "completed", "test_sets": ["test"]})
        return Ended(code)

    monkeypatch.setattr(local, "start", interrupted)
    assert complete(run, plan) == "interrupted"
    monkeypatch.setattr(local, "start", trainings.start)
    assert complete(run, plan) == "completed"


def test_a_run_that_was_killed_has_failed(run, plan, trainings):
    trainings.codes[run.folder.name] = -9
    assert complete(run, plan) == "failed"
    assert "killed by SIGKILL; if nobody killed it, the system was out of memory" in reason(run)


@pytest.mark.parametrize(
    ("loss", "ends", "why"),
    [
        (0.67, "completed", "None"),
        (0.674, "learnt nothing", "val/loss is not yet below that of the same prediction for ev"),
        (9.0, "learnt nothing", "val/loss is not yet below"),
        (19.0, "diverged", "val/loss rose to 19; it began at 9 at the most"),
        (None, "diverged", "val/loss is not finite"),
    ],
)
def test_a_run_that_is_no_better_than_untrained_diverged_only_if_its_loss_rose_far(
    run, plan, trainings, loss, ends, why
):
    trainings.constant_loss = 0.673  # the entropy of labels of 60 and 40 %
    trainings.scores = {"": loss}
    trainings.losses = [9.0, 9.0]
    assert complete(run, plan) == ends
    assert reason(run).startswith(why)


ALLOCATOR = "RuntimeError: DefaultCPUAllocator: can't allocate memory"


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        (f"Traceback\n{ALLOCATOR}: you tried", 1, "out of memory: RuntimeError: Default"),
        ("MemoryError", 1, "out of memory: MemoryError"),
        ("terminate called: 'std::bad_alloc'", -6, "killed by SIGABRT: out of memory: terminate c"),
        ("tfzoo: data.train: no file x\n", 2, "data.train: no file x"),
        ("", 3, "ended with exit code 3"),
    ],
)
def test_a_run_that_could_say_nothing_itself_is_known_by_its_last_words(
    tmp_path, output, code, said
):
    (tmp_path / local.OUTPUT).write_text(output)
    assert local.last_words(tmp_path, code).startswith(said)


def test_a_run_whose_checkpoints_cannot_be_read_begins_anew(run, plan):
    (run.folder / "checkpoints").mkdir(parents=True)
    (run.folder / "checkpoints/last.ckpt").write_bytes(b"torn")
    assert complete(run, plan) == "completed"
    assert not (run.folder / "checkpoints").exists()


def test_the_best_value_is_tuned_for_each_cell_alone_and_taken_by_all_its_seeds(
    tuning, tmp_path, trainings
):
    trainings.scores = {"norm=layer/tune/0.003": 0.5, "norm=rms/tune/0.001": 0.5}
    runs = state.planned_runs(tuning, tmp_path)
    assert {complete(run, tuning) for run in runs} == {"completed"}
    assert len(trainings.trained) == 2 * 2 + 4
    best = {"norm=layer": 0.003, "norm=rms": 0.001}
    for run in runs:
        assert (
            json.loads((run.folder.parent / tune.FILE).read_text())["value"] == best[run.cell.name]
        )
        assert read_config(run.folder)["optim"]["lr"] == best[run.cell.name]
        assert read_config(run.folder)["seed"] == run.seed
    assert read_config(tmp_path / "norm=rms/tune/0.001")["seed"] == 0


def test_a_value_that_fails_is_not_taken_and_where_all_do_the_run_fails(
    tuning, tmp_path, trainings
):
    trainings.codes, trainings.scores = {"tune/0.001": 1, "norm=rms/tune": 1}, {"tune/0.003": 9.0}
    layer, rms = state.planned_runs(tuning, tmp_path)[:2]
    assert complete(layer, tuning) == "completed"
    assert read_config(layer.folder)["optim"]["lr"] == 0.003
    assert complete(rms, tuning) == "failed"
    assert reason(rms) == "no value could be trained: 0.001: it broke; 0.003: it broke"


def test_values_that_were_tried_with_other_settings_are_not_chosen_from(
    tuning, tmp_path, trainings
):
    run = state.planned_runs(tuning, tmp_path)[0]
    tried = tune.trials(run, tuning)[0]
    tried.folder.mkdir(parents=True)
    write_config(tried.folder, tried.recipe)
    (tmp_path / state.SWEEP).write_text("")
    create(tuning, tmp_path, "")
    recipes = {
        tuned: {**recipe, "trainer": {**recipe["trainer"], "max_steps": 9}}
        for tuned, recipe in run.cell.recipes.items()
    }
    longer = replace(tuning, cells=[replace(cell, recipes=recipes) for cell in tuning.cells])
    with pytest.raises(BadRun, match=r"tune/0.001 was run .*: trainer.max_steps was 4, is 9"):
        create(longer, tmp_path, "")


def test_a_value_that_was_chosen_by_another_metric_is_not_taken(tuning, tmp_path, trainings):
    run = state.planned_runs(tuning, tmp_path)[0]
    complete(run, tuning)
    other = replace(tuning, metric=replace(tuning.metric, name="val/bleu", mode="max"))
    with pytest.raises(BadRun, match=r"was tuned with optim.lr .* by val/loss, which the sweep"):
        tune.tuned(run, other)


def test_threads_come_from_the_sweep_then_the_environment_then_the_cores(plan, monkeypatch):
    def threads(plan, jobs):
        return [slot["OMP_NUM_THREADS"] for slot in local.slots(plan, jobs)]

    plan = replace(plan, threads=None)
    monkeypatch.setattr(local, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads(plan, 2) == ["4", "4"]
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    assert threads(plan, 2) == ["3", "3"]
    assert threads(replace(plan, threads=2), 1) == ["2"]


def test_a_training_gets_its_group_its_threads_and_no_rank(tmp_path, trainings, monkeypatch):
    monkeypatch.delenv("WANDB_RUN_GROUP", raising=False)
    monkeypatch.setenv("RANK", "1")
    plan, folder = load(sweep_file(tmp_path, threads=3)), tmp_path / "tiny"
    run = state.planned_runs(plan, folder)[0]
    assert local.command(run, plan)[3:6] == ("--run", str(run.folder), "--seed=1")
    local.run(plan, folder, [run], 1, lambda run, status: None)
    env = trainings.environment
    assert (env["WANDB_RUN_GROUP"], env["OMP_NUM_THREADS"], "RANK" in env) == ("tiny", "3", False)


def test_a_run_is_not_shared_between_jobs():
    assert seconds_left(4, [10.0, 30.0], 2) == 40
    assert seconds_left(1, [10.0, 30.0], 4) == 20
    assert seconds_left(4, [], 2) is None


def test_a_signal_that_ended_the_fork_server_too_stops_the_sweep(monkeypatch):
    def ended(*args):
        raise EOFError("unexpected EOF")

    for name in ("start", "command", "imports"):
        monkeypatch.setattr(local, name, ended if name == "start" else lambda *args: ())
    stop = local.Stop()
    plan: Any = None
    run: Any = None
    with pytest.raises(EOFError):
        local.Pool(plan, [{}], stop, print).start(run)
    stop.code = 75
    pool = local.Pool(plan, [{}], stop, print)
    pool.start(run)
    assert not pool.running
