"""The training of every task: random state, normalised gradients, skipped steps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import lightning.pytorch as L
import torch
from torch import Tensor, nn

from tfzoo import _adapters
from tfzoo.auxiliary_losses import measured, parts_with_losses, take_auxiliary_loss
from tfzoo.contracts import FeedForward
from tfzoo.errors import NotFinite
from tfzoo.models.initialise import seed_of
from tfzoo.tasks.gradient_normalizer import GradientNormalizer
from tfzoo.tasks.nan_detection import first_non_finite
from tfzoo.tasks.optim import Optim
from tfzoo.tasks.skipped_steps import SkippedSteps, skip_unless

CLIP_BY_NORM = (None, "norm")
"""Values of ``Trainer.gradient_clip_algorithm`` that clip the norm of all gradients."""


class Learner(L.LightningModule):
    """A LightningModule that trains a model.

    **Normalisation.** ``training_step`` returns ``self.summed(loss, count)``. The optimiser then
    gets the gradients of the total loss divided by the total count, where both totals are over all
    micro-batches and processes of the step. The update thus does not depend on the number of
    processes. If ``training_step`` returns a mean loss without :meth:`summed`, its gradients are
    averaged over micro-batches and processes, as always in Lightning.

    **Auxiliary losses** of the model's parts, such as the balance loss of a mixture of experts, are
    added by :meth:`summed`: to the gradients, not to ``train/loss``, and never in validation. The
    loss of a step is their mean over micro-batches and processes, weighted by the counts.

    **Skipped steps.** If the loss or a gradient of any process is not finite, no process takes the
    step: parameters and optimiser state stay as they are. The learning-rate schedule advances with
    every step, taken or skipped. After ``optim.max_skipped`` skipped steps in a row, training
    ends with :class:`~tfzoo.errors.NotFinite`.

    **Synchronisation.** A step is normalised, clipped and skipped on the device; the host reads
    the number of skipped steps one step later. The host waits for the device at logging steps
    (``trainer.log_every_n_steps``) and when a progress bar shows the loss; with ``precision:
    16-mixed`` (GradScaler) or an optimiser that is not ``fused``, it waits at every step.
    """

    training_names: ClassVar[tuple[str, ...]] = (
        *("loss", "lr", "grad_norm", "skipped", "tokens_per_second"),
        "auxiliary_loss",
    )
    """The names of what training logs, the last one where the model has such losses."""
    model: Any
    optim: Optim
    seed: int

    def __init__(self) -> None:
        super().__init__()
        self.batches = 0
        """Batches that this process has trained on."""
        self.tokens: Tensor | int = 0
        """Tokens that this process has trained on."""
        self.normalizer = GradientNormalizer()
        self.skipped_steps = SkippedSteps()
        self._parts_with_losses: dict[str, FeedForward] | None = None
        self._step_batches: list[Any] = []  # micro-batches of the current step
        # The number of the last step's first batch, and its batches.
        self._last_step: tuple[int, list[Any]] = (0, [])
        self._logged_tokens, self._logged_at = 0.0, time.perf_counter()

    @property
    def skipped(self) -> int:
        """Steps skipped so far. Waits for the device."""
        return int(self.skipped_steps.total)

    def setup(self, stage: str) -> None:
        # Buffers are equal in all processes. DDP would broadcast them before each forward pass, and
        # a process with more batches to score than the others would wait forever.
        _adapters.ignore_in_ddp(self, [name for name, _ in self.named_buffers()])

    @classmethod
    def logged_names(cls) -> list[str]:
        """The metrics that a callback can monitor."""
        return [f"train/{name}" for name in cls.training_names]

    def configure_optimizers(self) -> Any:
        steps = self.trainer.estimated_stepping_batches
        return self.optim.configure(self, max_steps=int(steps) if steps != float("inf") else 2**31)

    def on_train_start(self) -> None:
        self.normalizer.reset()
        self._step_batches = []
        self._parts_with_losses = None
        self._restart_clock()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self._reseed(self.batches)
        self.batches += 1  # before any callback saves a checkpoint at the end of the batch
        self._step_batches.append(batch)

    def summed(self, loss: Tensor, count: Tensor | float) -> Tensor:
        """Record the sum of a batch's losses and ``count``, the number to divide it by, such as the
        number of tokens. Returns the loss, with auxiliary losses, for ``training_step`` to return.
        """
        self.normalizer.add(loss, count)
        auxiliary = take_auxiliary_loss(self.parts_with_losses.values())
        return loss if auxiliary is None else loss + count * auxiliary

    @property
    def parts_with_losses(self) -> dict[str, FeedForward]:
        """The parts of the model that have an auxiliary loss, by name."""
        if self._parts_with_losses is None:
            self._parts_with_losses = parts_with_losses(self.model)
        return self._parts_with_losses

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._check_skipped()
        trainer, normalizer = self.trainer, self.normalizer
        log_loss = normalizer.total is not None
        clips = trainer.gradient_clip_algorithm in CLIP_BY_NORM
        finite = normalizer.normalize_(
            parameters_of(optimizer),
            trainer.world_size,
            trainer.accumulate_grad_batches,
            trainer.gradient_clip_val if clips else None,
        )
        skip_unless(finite, optimizer)
        # GradScaler lowers its scale after an overflow; such steps do not count here.
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self.skipped_steps.add(~finite, tolerated=scaler is not None and scaler.get_scale() > 1)
        self._last_step = self.batches - len(self._step_batches), self._step_batches
        self._step_batches = []
        normalizer.reset()
        if log_loss:
            self.log("train/loss", normalizer.loss, prog_bar=True)
        if self._logs_now():
            self.log_dict(
                {
                    "train/grad_norm": normalizer.norm,
                    "train/skipped": float(self.skipped_steps.total),
                }
            )

    def on_validation_model_eval(self) -> None:
        if self.trainer.state.fn == "fit":
            self._check_skipped()  # before decoding with weights that may not be finite
        super().on_validation_model_eval()

    def on_train_end(self) -> None:
        self._check_skipped()  # the last step

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip by value as Lightning does. ``normalize_`` has already clipped by norm."""
        if gradient_clip_algorithm not in CLIP_BY_NORM:
            super().configure_gradient_clipping(
                optimizer, gradient_clip_val, gradient_clip_algorithm
            )

    def log_training(self, values: Mapping[str, Tensor], tokens: Tensor | int) -> None:
        """Count a batch's tokens, and log ``train/loss`` if it is among the values. At logging
        steps also log the other values, auxiliary losses and shares of experts, the learning rate,
        and the tokens per second since the last logging step: this process's rate times the number
        of processes.
        """
        self.tokens = self.tokens + tokens
        if "train/loss" in values:
            self.log("train/loss", values["train/loss"], prog_bar=True)
        if self._logs_now():
            now, counted = time.perf_counter(), float(self.tokens)
            seconds = max(now - self._logged_at, 1e-9)
            speed = self.trainer.world_size * (counted - self._logged_tokens) / seconds
            self._logged_tokens, self._logged_at = counted, now
            self.log_dict({key: value for key, value in values.items() if key != "train/loss"})
            extra = measured(self.parts_with_losses)
            self.log_dict({f"train/{key}": value for key, value in extra.items()})
            self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
            self.log("train/tokens_per_second", float(speed), prog_bar=True)

    def _check_skipped(self) -> None:
        """End the training if too many steps in a row were skipped, up to the last step.

        Raises:
            NotFinite: ``optim.max_skipped`` steps in a row were skipped.
        """
        in_a_row = self.skipped_steps.last_in_a_row()
        if in_a_row >= self.optim.max_skipped:
            bad = (
                f"the gradient of {name}"
                for name, p in self.named_parameters()
                if p.grad is not None and not bool(p.grad.isfinite().all())
            )
            first = self._first_not_finite() or next(bad, "the norm of the gradients")
            raise NotFinite(in_a_row, first)

    def _first_not_finite(self) -> str:
        """Compute the last step's batches again; return the name of the first value not finite."""
        start, batches = self._last_step

        def loss_of(index: int) -> Any:
            self._reseed(start + index)
            with self.trainer.precision_plugin.train_step_context():
                return self.training_step(batches[index], index)

        losses = [partial(loss_of, index) for index in range(len(batches))]
        self.log = lambda *_, **__: None  # type: ignore[method-assign]  # logged already
        try:
            return first_non_finite(self.model, losses, self.trainer.world_size)
        finally:
            del self.log

    def _reseed(self, batches: int) -> None:
        seed = seed_of(self.seed, "step", batches, self.global_rank)
        # torch.manual_seed does the same, but takes milliseconds: it seeds all kinds of devices.
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)

    def _restart_clock(self) -> None:
        self._logged_tokens, self._logged_at = float(self.tokens), time.perf_counter()

    def _logs_now(self) -> bool:
        every = getattr(self.trainer, "log_every_n_steps", 0)
        return bool(every) and (self.trainer.global_step + 1) % every == 0


def parameters_of(optimizer: Any) -> list[nn.Parameter]:
    """The parameters that an optimiser trains."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
