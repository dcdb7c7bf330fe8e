"""Signals that come at a bad moment."""

import os
import signal
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tfzoo.training.last_checkpoint import HostGroup
from tfzoo.training.signals import PAUSE, STOPPED, Signals


def test_a_signal_that_arrives_while_processes_agree_is_heard_at_the_next_step():
    answers = []

    def maximum(asked):
        if not answers:
            os.kill(os.getpid(), signal.SIGTERM)  # this process has said that nobody asked it
        answers.append(asked)
        return asked

    trainer = SimpleNamespace(accumulate_grad_batches=1, is_last_batch=False)
    task = SimpleNamespace()
    last = Mock()
    last.processes.maximum = maximum
    signals = Signals(last)
    signals.on_train_start(trainer, task)
    try:
        signals.on_train_batch_end(trainer, task, None, None, 0)
        assert not last.save.called
        with pytest.raises(SystemExit, match=str(STOPPED)):
            signals.on_train_batch_end(trainer, task, None, None, 1)
    finally:
        signals.teardown(trainer, task, "fit")
    assert answers == [0, STOPPED]
    assert last.save.called


def test_a_pause_comes_after_the_step_that_follows_it(monkeypatch):
    monkeypatch.setenv(PAUSE, "2")
    last = Mock()
    last.processes = HostGroup()
    signals = Signals(last)
    trainer = SimpleNamespace(accumulate_grad_batches=1, is_last_batch=False, global_step=2)
    signals.on_train_batch_end(trainer, Mock(), None, None, 1)
    assert not last.save.called
    trainer.global_step = 3
    with pytest.raises(SystemExit, match=str(STOPPED)):
        signals.on_train_batch_end(trainer, Mock(), None, None, 2)
    assert last.save.called
