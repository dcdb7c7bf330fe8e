"""A run that was stopped, however and wherever, goes on to the same end as one that was not."""

import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml

from tests import results
from tests.commands.test_fit import TINY
from tests.results import summary
from tests.typed import typed
from tfzoo import TranslationTask
from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.learning.task import Task
from tfzoo.testing.training import SMALL

pytestmark = pytest.mark.usefixtures("no_pictures", "own_folder")
RUN = Path("run")
STEPS = 8
EPOCH = 5
"""Batches of an epoch of these runs."""


def fit(*args):
    given = typed(
        f"--trainer.max_steps {STEPS} --trainer.val_check_interval 3",
        f"--trainer.limit_train_batches {EPOCH} --data.max_tokens 256",
        "--checkpoint.every_n_train_steps 1 --data.dataset.test 1 --data.dataset.long 1",
    )
    return main(["fit", "translation/numbers", *TINY, *given, "--run", str(RUN), *args])


def state(folder=RUN):
    """All of a run's last checkpoint that training depends on."""
    last = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)
    names = ("state_dict", "optimizer_states", "lr_schedulers", "global_step", "epoch", "tfzoo")
    names += ("current_model_state", "averaging_state")
    return dict(leaves({name: last[name] for name in names if name in last}, ""))


def leaves(value, name):
    """By dotted name; of a tensor, all its bits."""
    if isinstance(value, torch.Tensor):
        bits = value.contiguous().view(-1).view(torch.uint8).tolist()
        yield name, (value.dtype, value.shape, bits)
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{name}.{key}")
    else:
        yield name, value


def rows(folder=RUN):
    """Of ``metrics.csv``, but for what a clock says."""
    return [
        {key: value for key, value in row.items() if key != "train/tokens_per_second"}
        for row in results.rows(folder)
    ]


def differing(found, wanted):
    return [name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)]


def assert_same(folder, moment):
    assert differing(state(), state(folder)) == [], moment
    assert rows() == rows(folder), moment
    for key in ("scores", "best", "steps"):
        assert summary(RUN)["fit"][key] == summary(folder)["fit"][key], moment


class Copies:
    """Copies of a run's folder while it trains: what SIGKILL would leave behind."""

    def __init__(
        self, patch: pytest.MonkeyPatch, moments: set[str], task: type[Task] = TranslationTask
    ) -> None:
        self.moments = moments
        for name in ("training_step", "validation_step"):
            patch.setattr(task, name, self._copying(name.partition("_")[0], getattr(task, name)))

    def _copying(self, kind, step):
        def copying(task, batch, index):
            moment = f"{kind} {task.batches}"
            if moment in self.moments and not Path(moment).exists():
                shutil.copytree(RUN, moment)
            return step(task, batch, index)

        return copying


def assert_goes_on(train, moments, task=TranslationTask):
    """A training that is killed at any of the moments, each by itself, comes to the end of one that
    was not, when it is started again; returns the attempts of each.
    """
    found = []
    with pytest.MonkeyPatch.context() as patch:
        Copies(patch, moments, task)
        assert train() == 0
    RUN.rename("whole")
    for moment in sorted(moments):
        Path(moment).rename(RUN)
        assert train() == 0
        assert_same(Path("whole"), moment)
        found.append(summary(RUN)["fit"]["attempts"])
        shutil.rmtree(RUN)
    return found


AVERAGED = ("--optim.average", "0.7", "--trainer.limit_val_batches", "0")
ADAPTER = ("--adapter.name", "lora", "--adapter.rank", "2", "--adapter.targets", "[query, value]")
FROZEN = ("--optim.freeze", "[encoder]")
TWO = ("--trainer.devices", "2", "--data.dataset.test", "2", "--data.dataset.long", "2")
SAME_STEPS: dict[str, tuple[list[str], set[str], set[str]]] = {
    "plain": ([], {"training 6", "validation 8"}, {"training 3", "validation 6", "training 7"}),
    "accumulation": (
        ["--trainer.accumulate_grad_batches", "2", *FROZEN],
        set(),
        {"training 4", "training 6", "validation 9", "validation 14"},
    ),
    "epochs": (
        ["--trainer.max_steps", "-1", "--trainer.max_epochs", "2"],
        set(),
        {"training 5", "training 6", "training 8", "validation 10"},
    ),
    "two processes": ([*TWO], set(), {"training 6"}),
    "workers, averaged weights and an adapter": (
        ["--data.workers", "1", "--optim.average", "0.7", *ADAPTER],
        {"training 6"},
        {"validation 6"},
    ),
    "averaged weights that are never validated": ([*AVERAGED], {"training 7"}, {"training 5"}),
    "an adapter in two processes": ([*ADAPTER, *TWO], set(), {"training 6"}),
}
"""Options, and the moments of a kill, in the training or validation after so many batches began:
those that are tried by day, and those that are tried nightly.
"""


def kills():
    for name, (options, by_day, nightly) in SAME_STEPS.items():
        if by_day:
            yield pytest.param(options, by_day, id=name)
        yield pytest.param(options, nightly, id=f"{name}, other moments", marks=pytest.mark.nightly)


@pytest.mark.parametrize(("options", "moments"), list(kills()))
def test_a_killed_run_goes_on_to_the_same_end(options, moments):
    for attempts in assert_goes_on(partial(fit, *options), moments):
        assert [one["ended"] for one in attempts] == ["killed", "completed"]


def other_tasks():
    for name in registry("task").own_names():
        if name != "translation":
            by_day = name == "token_classification"
            yield pytest.param(name, marks=[] if by_day else [pytest.mark.nightly])


@pytest.mark.parametrize("name", list(other_tasks()))
def test_every_task_goes_on_to_the_same_end(name):
    """With a model and data as small as its contracts have, killed in training and validation."""
    cls, moments = registry("task").entry(name).cls, {"training 3", "validation 4"}
    trainer = {"max_steps": 6, "val_check_interval": 2, "check_val_every_n_epoch": None}
    recipe = {
        **{"task": name, **SMALL, **cls.example},
        "trainer": {**trainer, "log_every_n_steps": 1, "accelerator": "cpu", "devices": 1},
        "checkpoint": {"every_n_train_steps": 1},
    }
    recipe["model"] = {**recipe["model"], "dropout": 0.1}
    recipe["data"] = {**recipe["data"], "max_tokens": 256}
    Path("small.yaml").write_text(yaml.safe_dump(recipe), "utf-8")
    given = ["fit", "small.yaml", "--run", str(RUN)]
    assert_goes_on(partial(main, given), moments, cls)


def test_a_run_that_is_complete_goes_on_from_the_weights_it_trained_not_from_their_average():
    # a schedule that does not look at the last step
    constant = typed("--optim.schedule constant --checkpoint.every_n_train_steps 100")
    assert fit(*AVERAGED, *constant) == 0
    RUN.rename("whole")
    assert fit(*AVERAGED, *constant, "--trainer.max_steps", "6") == 0
    assert any(name.startswith(".averaging_state") for name in state())
    assert fit(*AVERAGED, *constant) == 0
    assert differing(state(), state(Path("whole"))) == []
    assert rows() == rows(Path("whole"))


def test_a_run_that_was_moved_knows_its_best_scores():
    assert fit("--trainer.max_steps", "3", "--checkpoint.save_top_k", "9") == 0
    RUN.rename("moved")
    assert fit("--checkpoint.save_top_k", "9", "--run", "moved") == 0
    last = torch.load("moved/checkpoints/last.ckpt", weights_only=True)
    [best] = [one["best_k_models"] for one in last["callbacks"].values() if "best_k_models" in one]
    assert [Path(file).is_file() for file in best] == [True] * 3, "at steps 3, 6 and 8"


def test_a_signal_before_a_validation_leaves_nothing_out(monkeypatch, capsys):
    """Training ends after a validation that is due; also at the last step."""
    assert fit() == 0
    RUN.rename("whole")
    step = TranslationTask.training_step
    stops = [6, STEPS]

    def stopping(self, batch, index):
        if stops and self.batches == stops[0]:
            stops.pop(0)
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", stopping)
    assert fit() == 75
    assert "go on" in capsys.readouterr().out
    assert any(row["val/chrf"] and row["step"] == "6" for row in rows())
    assert fit() == 75
    assert fit() == 0
    assert_same(Path("whole"), "a signal")
    assert [one["from"] for one in summary(RUN)["fit"]["attempts"]] == [0, 6, STEPS]


def test_a_run_goes_on_with_its_own_configuration_alone(capsys):
    few = typed("--trainer.max_steps 2 --trainer.limit_val_batches 0 --data.dataset.test 1")
    assert fit(*few) == 0
    files = [RUN / name for name in ("checkpoints/last.ckpt", "summary.json", "config.yaml")]
    before = [file.read_bytes() for file in files]
    written = [file.stat().st_mtime_ns for file in files]
    capsys.readouterr()
    assert fit(*few, "--model.dim", "32", "--optim.lr", "0.5") == 2
    assert "model.dim was 16, is 32; optim.lr was 0.002, is 0.5" in capsys.readouterr().err
    assert fit(*few, *typed("--trainer.accumulate_grad_batches 2 --trainer.max_steps 4")) == 2
    assert "a step of this run took 1 batches" in capsys.readouterr().err
    assert [file.stat().st_mtime_ns for file in files] == written, "not for a moment another"
    more = typed("--trainer.max_steps 3 --data.workers 1 --trainer.log_every_n_steps 2")
    assert fit(*few, *more) == 0
    assert torch.load(RUN / "checkpoints/last.ckpt", weights_only=True)["global_step"] == 3
    (RUN / "checkpoints/last.ckpt").write_bytes(before[0][: len(before[0]) // 2])
    assert fit(*few) == 2, "never a silent start at step 0"
    assert main(["fit", "translation/numbers", *TINY, *few, "--from", "run", "--run", "new"]) == 2
    (RUN / "checkpoints/last.ckpt").write_bytes(before[0])
    capsys.readouterr()
    changed = typed("--from run --run new --model.norm rms")
    assert main(["fit", "translation/numbers", *TINY, *few, *changed]) == 0
    table = capsys.readouterr().out
    assert "weights of run/checkpoints/last.ckpt" in table
    assert "  dropped " in table
