"""Signals that come at a bad moment."""

import os
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.results import summary
from tests.tiny import numbers
from tests.typed import typed
from tfzoo import TranslationData, TranslationTask
from tfzoo.base.processes import INTERRUPTED, STOPPED, heard
from tfzoo.commands.main import main
from tfzoo.training.processes import Processes
from tfzoo.training.progress import Throughput
from tfzoo.training.resume import LastCheckpoint

CODES = {"SIGTERM": STOPPED, "SIGUSR1": STOPPED, "SIGINT": INTERRUPTED}
FIT = (
    *("fit", "translation/numbers", "--run", "run", *numbers(val=2, test=2)),
    *typed("--trainer.max_steps 2 --trainer.val_check_interval 2"),
)


def test_a_signal_that_arrives_while_processes_agree_is_heard_at_the_next_step(monkeypatch):
    answers = []

    def maximum(asked):
        if not answers:
            os.kill(os.getpid(), signal.SIGTERM)  # this process has said that nobody asked it
        answers.append(asked)
        return asked

    trainer = Mock(global_step=1, fast_dev_run=False)
    last = LastCheckpoint(Path(), None, None, lambda: False, Mock(maximum=maximum))
    with heard():
        last.on_train_start(Mock(global_step=0), Mock())
        last.between_batches(trainer)
        assert not trainer.save_checkpoint.called
        with pytest.raises(SystemExit, match=str(STOPPED)):
            last.between_batches(trainer)
    assert answers == [0, STOPPED]
    assert trainer.save_checkpoint.called


def sends(monkeypatch, name, cls, method):
    """Let a method send this process a signal, the first time that it is called."""
    called = getattr(cls, method)
    left = [getattr(signal, name)]

    def sending(self, *args, **kwargs):
        if left:
            os.kill(os.getpid(), left.pop())
        return called(self, *args, **kwargs)

    monkeypatch.setattr(cls, method, sending)


@pytest.mark.usefixtures("own_folder", "no_pictures")
@pytest.mark.parametrize("name", CODES)
def test_a_signal_during_the_last_test_leaves_the_test_to_the_next_attempt(
    name, monkeypatch, capsys
):
    before = signal.getsignal(getattr(signal, name))
    sends(monkeypatch, name, TranslationTask, "test_step")
    assert main(FIT) == CODES[name]
    assert "stopped by a signal" in capsys.readouterr().err
    assert summary("run")["fit"]["ended"] == "completed"
    assert "test" not in summary("run")
    assert signal.getsignal(getattr(signal, name)) == before
    assert main(FIT) == 0
    assert summary("run")["test"]["scores"]


UNVALIDATED = (*FIT, *typed("--trainer.check_val_every_n_epoch 9 --data.max_tokens 16"))
"""It is validated once, after its last step, in several batches."""


@pytest.mark.usefixtures("own_folder", "no_pictures")
@pytest.mark.parametrize("name", CODES)
def test_a_signal_during_the_validation_after_training_lets_it_end(name, monkeypatch):
    sends(monkeypatch, name, TranslationTask, "validation_step")
    assert main(UNVALIDATED) == CODES[name]
    assert summary("run")["fit"]["ended"] == "interrupted"
    assert summary("run")["fit"]["scores"]
    assert "test" not in summary("run")
    assert main(UNVALIDATED) == 0
    assert summary("run")["test"]["scores"]


@pytest.mark.usefixtures("own_folder", "no_pictures")
def test_processes_agree_on_a_signal_that_came_after_the_last_step(monkeypatch):
    def another_was_asked_to_end(throughput, *_):
        monkeypatch.setattr(Processes, "maximum", lambda processes, own: STOPPED)

    monkeypatch.setattr(Throughput, "on_train_end", another_was_asked_to_end)
    assert main(UNVALIDATED) == STOPPED
    assert summary("run")["fit"]["ended"] == "interrupted"


@pytest.mark.usefixtures("own_folder", "no_pictures")
def test_a_signal_ends_any_long_command_at_any_moment_with_its_code(monkeypatch, capsys):
    def ends(command, cls, method, name):
        with monkeypatch.context() as patch:
            sends(patch, name, cls, method)
            assert main(command) == CODES[name], (command, method)
        assert "stopped by a signal" in capsys.readouterr().err, (command, method)

    ends(FIT, TranslationData, "prepare_data", "SIGTERM")
    ends(FIT, TranslationTask, "configure_optimizers", "SIGINT")
    assert main(FIT) == 0
    ends(["score", "run", "validation"], TranslationTask, "validation_step", "SIGINT")
    ends(["score", "run", "validation"], TranslationData, "setup", "SIGUSR1")
    ends(["score", "run"], TranslationTask, "test_step", "SIGUSR1")
    asked = ["--predictions", "tsv"]
    ends(["score", "run", *asked], TranslationTask, "predictions", "SIGTERM")
