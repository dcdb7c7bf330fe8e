"""Signals that come at a bad moment."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from tfzoo.runs.signals import STOPPED, Signals


def test_a_signal_that_arrives_while_processes_agree_is_heard_at_the_next_step() -> None:
    answers = []

    def reduce(asked: torch.Tensor, reduce_op: str) -> torch.Tensor:
        if not answers:
            os.kill(os.getpid(), signal.SIGTERM)  # this process has said that nobody asked it
        answers.append(asked.clone())
        return asked

    strategy = SimpleNamespace(reduce=reduce)
    trainer: Any = SimpleNamespace(
        world_size=2, strategy=strategy, accumulate_grad_batches=1, is_last_batch=False
    )
    task: Any = SimpleNamespace(device="cpu")
    finish = Mock()
    signals = Signals(finish)
    signals.on_train_start(trainer, task)
    try:
        signals.on_train_batch_end(trainer, task, None, None, 0)
        assert not finish.save.called
        with pytest.raises(SystemExit, match=str(STOPPED)):
            signals.on_train_batch_end(trainer, task, None, None, 1)
    finally:
        signals.teardown(trainer, task, "fit")
    assert answers == [0, STOPPED]
    assert finish.save.called
