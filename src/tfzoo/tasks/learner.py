"""How every task trains, step by step: its random state, the mean that a step follows, steps that
are left out, and its speed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import lightning.pytorch as L
import torch
from torch import Tensor, nn

from tfzoo import _adapters
from tfzoo.errors import NotFinite
from tfzoo.models.initialise import seed_of
from tfzoo.tasks.gradient_normalizer import GradientNormalizer, drop
from tfzoo.tasks.nan_detection import first_non_finite
from tfzoo.tasks.optim import Optim

BY_NORM = (None, "norm")
"""What a Trainer calls clipping by the norm of all gradients."""


class Learner(L.LightningModule):
    """The training half of a task.

    A ``training_step`` returns ``self.summed(loss, count)``: a step of the optimiser then follows
    the mean of the loss over all that its micro-batches and processes counted, so that one process
    and many train alike. One that returns a mean of its own gets Lightning's
    mean of means. Where the loss or a gradient of any process is not finite, no process takes the
    step: parameters, optimiser and schedule stay as they are. ``optim.max_skipped`` such steps in a
    row end the training.
    """

    model: Any
    optim: Optim
    seed: int

    def __init__(self) -> None:
        super().__init__()
        self.batches = 0  # trained on by this process
        self.skipped = 0  # steps, so far
        self.tokens: Tensor | int = 0  # trained on by this process
        self.step = GradientNormalizer()
        self._taken, self._in_a_row = True, 0
        self._counted, self._since = 0.0, time.perf_counter()

    def setup(self, stage: str) -> None:
        # Every process computes the same buffers. If DDP sent them around before each forward,
        # processes with more batches to score than
        # others would wait for ever.
        names = [name for name, _ in self.named_buffers()]
        _adapters.ignore_in_ddp(self, names)

    def configure_optimizers(self) -> Any:
        steps = self.trainer.estimated_stepping_batches
        return self.optim.configure(
            self.parameters(), max_steps=int(steps) if steps != float("inf") else 2**31
        )

    def on_train_start(self) -> None:
        self.step.begin()
        self._restart_clock()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self._reseed(self.batches)
        self.batches += 1  # before callbacks hear of the batch's end and save
        self.step.batches.append(batch)

    def summed(self, loss: Tensor, count: Tensor | float) -> Tensor:
        """What ``training_step`` returns: the sum of a loss over a batch, to be divided by all that
        ``count`` adds up to in a step.
        """
        self.step.add(loss, count)
        return loss

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        step, parameters = self.step, trained(optimizer)
        counted = step.total is not None
        trainer = self.trainer
        most = trainer.gradient_clip_val if trainer.gradient_clip_algorithm in BY_NORM else None
        self._taken = step.finish(
            parameters, trainer.world_size, trainer.accumulate_grad_batches, most
        )
        self._in_a_row = 0 if self._taken else self._in_a_row + 1
        if not self._taken:
            self._skip()
        step.begin()
        if counted:
            self.log("train/loss", step.loss, prog_bar=True)
        if self._logs_now():
            self.log_dict({"train/grad_norm": step.norm, "train/skipped": float(self.skipped)})

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Lightning's, but a clip by norm is done: the step knew the norm when it scaled the
        gradients.
        """
        if gradient_clip_algorithm not in BY_NORM:
            super().configure_gradient_clipping(
                optimizer, gradient_clip_val, gradient_clip_algorithm
            )

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """A step that was left out is none to the schedule either."""
        if self._taken:
            super().lr_scheduler_step(scheduler, metric)

    def log_training(self, values: Mapping[str, Tensor], tokens: Tensor | int) -> None:
        """Log a step's values, the learning rate and, at the Trainer's logging steps, tokens per
        second since the last one.

        A count that lies on the device is fetched at these steps alone. The speed is this process's
        times the number of processes.
        """
        self.tokens = self.tokens + tokens
        if "train/loss" in values:
            self.log("train/loss", values["train/loss"], prog_bar=True)
        if self._logs_now():
            now, counted = time.perf_counter(), float(self.tokens)
            speed = (
                self.trainer.world_size * (counted - self._counted) / max(now - self._since, 1e-9)
            )
            self._counted, self._since = counted, now
            self.log_dict({key: value for key, value in values.items() if key != "train/loss"})
            self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
            self.log("train/tokens_per_second", float(speed), prog_bar=True)

    def _skip(self) -> None:
        """Leave the step out.

        Raises:
            NotFinite: it was one too many in a row.
        """
        self.skipped += 1
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None and scaler.get_scale() > 1:
            self._in_a_row = 0  # 16-mixed finds its scale by overflowing
        last = self._in_a_row >= self.optim.max_skipped
        bad = (
            next((name for name, p in self.named_parameters() if not finite(p.grad)), "")
            if last
            else ""
        )
        drop(list(self.parameters()))
        if last:
            raise NotFinite(
                self._in_a_row,
                self._first_not_finite()
                or (bad and f"the gradient of {bad}")
                or "the norm of the gradients",
            )

    def _first_not_finite(self) -> str:
        """Where the step went wrong, found by computing its batches again."""
        batches = self.step.batches

        def loss_of(place: int) -> Any:
            self._reseed(self.batches - len(batches) + place)
            with self.trainer.precision_plugin.train_step_context():
                return self.training_step(batches[place], place)

        return first_non_finite(
            self.model,
            [partial(loss_of, place) for place in range(len(batches))],
            self.trainer.world_size,
        )

    def _reseed(self, batches: int) -> None:
        seed = seed_of(self.seed, "step", batches, self.global_rank)
        # As torch.manual_seed, which takes milliseconds where it notes for every kind of device how
        # it was called.
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)

    def _restart_clock(self) -> None:
        self._counted, self._since = float(self.tokens), time.perf_counter()

    def _logs_now(self) -> bool:
        every = getattr(self.trainer, "log_every_n_steps", 0)
        return bool(every) and (self.trainer.global_step + 1) % every == 0


def finite(x: Tensor | None) -> bool:
    """Whether all numbers are; where there are none, too."""
    return x is None or bool(x.isfinite().all())


def trained(optimizer: Any) -> list[nn.Parameter]:
    """What an optimiser changes; quicker to ask for in every step than all modules of a model."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
