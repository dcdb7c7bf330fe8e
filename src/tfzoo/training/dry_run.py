"""``tfzoo fit --dry-run``: what a training will take, estimated from a few of its steps."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from time import perf_counter
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Checkpoint

from tfzoo.base.terminal import notify, print_table
from tfzoo.config.config import Config
from tfzoo.errors import BadOption
from tfzoo.training.cost import cost_of, longest_batch
from tfzoo.training.train import prepared
from tfzoo.training.trainer import launching, make_trainer, seconds_left

WARMUP = 3
"""Batches that are not timed: the first ones are slower, since memory is allocated and kernels are
loaded.
"""
MIN_BATCHES, MAX_BATCHES = 2, 50
"""Minimum and maximum number of batches that are timed."""
MAX_SECONDS = 4.0
"""Seconds after which timing ends, once :data:`MIN_BATCHES` are timed."""


class Stopwatch(Checkpoint):
    """Times batches, and ends the training when it has timed enough of them. Being a
    ``Checkpoint``, it keeps Lightning from adding one that writes files.
    """

    def __init__(self) -> None:
        self.ends: list[float] = []
        """When training began, and when each batch was over."""
        self.limit = inf

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.ends = [perf_counter()]
        self.steps = float(trainer.estimated_stepping_batches)
        self.limit = seconds_left(trainer)

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(perf_counter())
        timed, seconds = len(self.ends) - 1 - WARMUP, self.ends[-1] - self.ends[0]
        over = timed >= (MIN_BATCHES if seconds > MAX_SECONDS else MAX_BATCHES)
        if trainer.strategy.reduce_boolean_decision(over, all=False):
            trainer.fit_loop.epoch_loop.max_steps = trainer.global_step

    def seconds(self) -> float:
        """Of a batch.

        Raises:
            BadOption: none was over in the time that the recipe allows.
        """
        if len(self.ends) < 2:
            raise BadOption("--dry-run: trainer.max_time is over before the first step: raise it")
        first = min(WARMUP, len(self.ends) - 2)
        return (self.ends[-1] - self.ends[first]) / (len(self.ends) - 1 - first)


def dry_run(config: Config, command: list[str]) -> int:
    """Prepare the data, train a few steps, and print what the whole training will take. Nothing is
    written except to the cache. Returns the exit code.
    """
    alone = {"callbacks": [], "limit_val_batches": 0, "enable_progress_bar": False}
    stopwatch = Stopwatch()
    trainer = make_trainer({**config.recipe["trainer"], **alone}, None, [stopwatch])
    task, data = prepared(config, trainer)
    notify(data.describe())
    with launching(command):
        trainer.fit(task, datamodule=data)
    step = stopwatch.seconds() * trainer.accumulate_grad_batches
    time, steps = f"{step:.3g} s a step; validation comes on top", stopwatch.steps
    if (seconds := min(steps * step, stopwatch.limit)) < inf:
        time = f"about {timedelta(seconds=round(seconds))}: {time}"
    rows = [
        ("parameters", f"{sum(parameter.numel() for parameter in task.parameters()):,}"),
        ("batches", f"{trainer.num_training_batches:,} an epoch"),
        ("steps", "until it is stopped" if steps == inf else f"{steps:,.0f}"),
        ("time", time),
    ]
    if (batch := longest_batch(data)) and (cost := cost_of(config, trainer, task.tokenizer, batch)):
        rows.append(("memory", f"about {cost}"))
    print_table(rows, f"{config.recipe['task']} {config.name}: dry run")
    return 0
