"""Checkpoints are of whole steps, and training ends with one of its last."""

import os
import signal
from pathlib import Path

import pytest

from tests.tiny import numbers
from tests.typed import typed
from tfzoo import TranslationTask
from tfzoo.commands.main import main
from tfzoo.runs.checkpoints import newest, read, unfit
from tfzoo.training.trainer import AtomicCheckpointIO

pytestmark = pytest.mark.usefixtures("no_pictures", "own_folder")

RUN = Path("run")
LAST = RUN / "checkpoints/last.ckpt"
TINY = numbers("--data.max_tokens 128 --trainer.accumulate_grad_batches 3")


def fit(*args):
    return main(["fit", "translation/numbers", *TINY, "--run", str(RUN), *args])


@pytest.fixture
def saved(monkeypatch):
    """Of each ``last.ckpt`` its step and the batches trained on by then."""
    found = []
    trained = 0
    step, save = TranslationTask.training_step, AtomicCheckpointIO.save_checkpoint

    def counted(self, batch, index):
        nonlocal trained
        trained += 1
        return step(self, batch, index)

    def seen(self, checkpoint, path, storage_options=None):
        save(self, checkpoint, path, storage_options)
        if Path(path).name == "last.ckpt":
            found.append((checkpoint["global_step"], trained))

    monkeypatch.setattr(TranslationTask, "training_step", counted)
    monkeypatch.setattr(AtomicCheckpointIO, "save_checkpoint", seen)
    return found


def of_whole_steps(saved):
    return bool(saved) and all(batches == 3 * step for step, batches in saved)


NEVER = "--trainer.val_check_interval 1000"


@pytest.mark.parametrize(
    ("often", "steps"),
    [
        (f"--checkpoint.train_time_interval 00:00:00 {NEVER}", [1, 2, 3, 4]),
        (f"--checkpoint.every_n_train_steps 2 {NEVER}", [2, 4]),
        ("--trainer.val_check_interval 4", [2, 3, 4]),
    ],
    ids=["time", "steps", "validation"],
)
def test_of_several_accumulated_batches_a_checkpoint_is_written_after_the_last(often, steps, saved):
    assert fit(*typed(often), "--trainer.max_steps", "4") == 0
    assert of_whole_steps(saved)
    assert sorted({step for step, _ in saved}) == steps


def test_the_best_of_a_validation_within_a_step_is_not_gone_on_from(saved):
    often = "--trainer.val_check_interval 4 --trainer.max_steps 2 --checkpoint.save_top_k -1"
    assert fit(*typed(often)) == 0
    LAST.unlink()
    found = {
        unfit(read(path)): read(path)["global_step"] for path in (RUN / "checkpoints").iterdir()
    }
    assert found == {"was written in the middle of a step": 1, "": 2}
    chosen, _ = newest(RUN)
    assert chosen is not None
    assert read(chosen)["global_step"] == 2


@pytest.mark.parametrize("asked", ["SIGTERM", "SIGINT", "time"])
def test_a_stop_waits_until_the_step_is_over(asked, saved, monkeypatch):
    step = TranslationTask.training_step

    def stopped(self, batch, index):
        if self.batches == 4:
            if asked == "time":
                self.trainer.should_stop = True
            else:
                os.kill(os.getpid(), getattr(signal, asked))
        return step(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", stopped)
    code = fit("--trainer.val_check_interval", "1000", "--trainer.max_steps", "9")
    assert code == {"SIGTERM": 75, "SIGINT": 130, "time": 0}[asked]
    assert {step for step, _ in saved} == {2, 3} if asked == "SIGINT" else {2}
    assert of_whole_steps(saved)
