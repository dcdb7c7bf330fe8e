"""``tfzoo fit --dry-run``: what a training will take, estimated from a few of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle
from math import inf
from statistics import mean
from time import perf_counter
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Checkpoint
from torch.utils.data import DataLoader

from tfzoo.base.terminal import notify, print_error, print_table
from tfzoo.config.config import Config
from tfzoo.data.module import TextData
from tfzoo.errors import BadOption
from tfzoo.runs.machine import peak_memory
from tfzoo.training.out_of_memory import OutOfMemoryContext, advice, is_out_of_memory
from tfzoo.training.train import prepared
from tfzoo.training.trainer import launching, make_trainer, seconds_left

WARMUP = 3
"""Steps that are not timed: the first ones are slower, since memory is allocated and kernels are
loaded.
"""
MIN_STEPS, MAX_STEPS = 2, 50
"""Minimum and maximum number of steps that are timed."""
MAX_SECONDS = 4.0
"""Seconds after which timing ends, once :data:`MIN_STEPS` steps are timed."""


@dataclass
class Estimate:
    """What a training will take.

    Args:
        parameters: of the model.
        batches: in an epoch, of each process.
        steps: of the training; infinite if only a time limits it.
        timed: the number of steps that were timed.
        step: seconds of a step.
        limit: seconds after which the training ends; infinite if there is no such limit.
        memory: peak memory in bytes: of this process, and of the GPU if there is one.
    """

    parameters: int
    batches: int
    steps: float
    timed: int
    step: float
    limit: float = inf
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Seconds of all training steps, without validation."""
        return min(self.steps * self.step, self.limit)


class Stopwatch(Checkpoint):
    """Times steps, and ends the training when it has timed enough of them. Being a ``Checkpoint``,
    it keeps Lightning from adding one that writes files.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.since = 0.0
        self.steps = inf
        self.limit = inf

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.since = perf_counter()
        self.steps = float(trainer.estimated_stepping_batches)
        self.limit = seconds_left(trainer)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        last = batch_idx + 1 == trainer.num_training_batches  # an epoch ends with a step
        if (batch_idx + 1) % trainer.accumulate_grad_batches and not last:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = perf_counter()
        self.seconds.append(now - self.since)
        self.since = now
        timed = self.seconds[WARMUP:]
        enough = len(timed) >= MIN_STEPS and (len(timed) >= MAX_STEPS or sum(timed) > MAX_SECONDS)
        if trainer.strategy.reduce_boolean_decision(enough, all=False):
            trainer.fit_loop.epoch_loop.max_steps = trainer.global_step


def dry_run(config: Config, command: list[str]) -> int:
    """Prepare the data, train a few steps, and print what the whole training will take. Nothing is
    written except to the cache. Returns the exit code.
    """
    if isinstance(config.data, TextData) and config.data.stream is not None:
        raise BadOption(
            "--dry-run: the batches of a stream (data.stream) are known when it is read; train a "
            "few steps instead, with --trainer.max_steps"
        )
    alone = {"callbacks": [], "limit_val_batches": 0, "enable_progress_bar": False}
    context, stopwatch = OutOfMemoryContext(), Stopwatch()
    trainer = make_trainer({**config.recipe["trainer"], **alone}, None, [stopwatch, context])
    task, data = prepared(config)
    notify(data.describe())
    try:
        with launching(command):
            estimated = estimate(trainer, task, data, stopwatch)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        print_error(f"out of memory: {advice(context.shape, data.max_tokens)}")
        return 1
    print_table(rows(estimated), f"{config.recipe['task']} {config.name}: dry run")
    return 0


def estimate(trainer: L.Trainer, task: Any, data: Any, stopwatch: Stopwatch) -> Estimate:
    """Train a few steps, the first one on the largest batch, and estimate the whole training.

    Raises:
        BadOption: no step was taken in the time that the recipe allows.
    """
    own, padded = data.train_dataloader, PaddedTokens(data)

    def largest_first() -> DataLoader[Any]:
        loader = own()
        batches: Any = padded.largest_first(list(loader.batch_sampler))  # any iterable of batches
        return DataLoader(
            loader.dataset,
            batch_sampler=batches,
            collate_fn=loader.collate_fn,
            num_workers=loader.num_workers,
        )

    data.train_dataloader = largest_first
    trainer.fit(task, datamodule=data)
    if not stopwatch.seconds:
        raise BadOption("--dry-run: trainer.max_time is over before the first step: raise it")
    steps = cycle(padded.of_steps(trainer.accumulate_grad_batches))
    pairs = list(zip(stopwatch.seconds, steps, strict=False))
    timed = pairs[WARMUP:] or pairs
    per_token = sum(seconds for seconds, _ in timed) / sum(count for _, count in timed)
    return Estimate(
        parameters=sum(parameter.numel() for parameter in task.parameters()),
        batches=int(trainer.num_training_batches),
        steps=stopwatch.steps,
        timed=len(timed),
        step=per_token * mean(padded.counts) * trainer.accumulate_grad_batches,
        limit=stopwatch.limit,
        memory=peak_memory(),
    )


class PaddedTokens:
    """The number of tokens of each batch of an epoch, padding included. The time of a step is
    assumed to be proportional to it.
    """

    def __init__(self, data: Any) -> None:
        self.lengths = [lengths + 1 for lengths in data.sets["train"].lengths()]
        self.counts: list[float] = []

    def largest_first(self, batches: list[Sequence[int]]) -> list[Sequence[int]]:
        """Move the batch with the longest rows to the front, and of several that with most rows:
        attention takes most memory there.
        """
        longest = [sum(int(side[rows].max()) for side in self.lengths) for rows in batches]
        first = max(range(len(batches)), key=lambda index: (longest[index], len(batches[index])))
        order = [first, *(index for index in range(len(batches)) if index != first)]
        self.counts = [longest[index] * len(batches[index]) for index in order]
        return [batches[index] for index in order]

    def of_steps(self, accumulated: int) -> list[float]:
        """The tokens of each optimiser step, which has ``accumulated`` batches."""
        firsts = range(0, len(self.counts), accumulated)
        return [sum(self.counts[first : first + accumulated]) for first in firsts]


def rows(estimated: Estimate) -> list[tuple[str, str]]:
    """The rows of the table that is printed."""
    times = f"{estimated.step:.3g} s a step, timed in {estimated.timed}; validation comes on top"
    unknown = estimated.seconds == inf
    lines = [
        ("parameters", f"{estimated.parameters:,}"),
        ("batches", f"{estimated.batches:,} an epoch"),
        ("steps", "until it is stopped" if estimated.steps == inf else f"{estimated.steps:,.0f}"),
        (
            "time",
            times if unknown else f"about {timedelta(seconds=round(estimated.seconds))}: {times}",
        ),
    ]
    names = {"process": "memory", "gpu": "GPU memory"}
    return lines + [
        (names[key], f"about {size / 1e6:,.0f} MB") for key, size in estimated.memory.items()
    ]
