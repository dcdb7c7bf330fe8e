"""How training ends: with a validation of its last step and a checkpoint of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import Checkpoint

from tfzoo.runs.checkpoint_io import sweep
from tfzoo.runs.checkpoints import LAST
from tfzoo.runs.host_group import HostGroup


class LastCheckpoint(Checkpoint):
    """Keeps ``last.ckpt`` at each validation, every so many steps or so much time, and at the end;
    validates the last step.

    The last step is Lightning's, or the first after which there was ``enough``, which all processes
    ask.

    A step is over when the parameters have changed: of several batches that are accumulated for it,
    after the last. Only then is ``last.ckpt`` written and does training end, for what was
    accumulated is in no checkpoint. ``failed`` holds the checkpoints that could not be written,
    with the reason, on all processes.

    Lightning validates once more when training is asked to stop, but not when the last step or
    epoch is reached: so it is asked to. It calls a ``Checkpoint`` after all other callbacks, so
    that what they know is in the file.
    """

    def __init__(
        self,
        folder: Path,
        every_n_train_steps: int | None = None,
        train_time_interval: timedelta | None = None,
        enough: Callable[[], bool] = bool,
    ) -> None:
        self.folder = folder
        self.enough = enough
        self.every = every_n_train_steps
        self.interval = train_time_interval
        self.saved = -1
        self.saved_at = monotonic()
        self.failed: dict[str, str] = {}
        self.within_step = False
        self.processes = HostGroup()
        self.waiting: set[str] = set()
        """What is to be done when the step is over: ``save``, ``stop``."""

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage == "fit" and trainer.is_global_zero:
            sweep(self.folder)

    def state_dict(self) -> dict[str, Any]:
        """Tells checkpoints of other callbacks that were written between the batches of one step."""
        return {"within_step": self.within_step}

    def save(self, trainer: L.Trainer) -> None:
        """Write ``last.ckpt`` unless this step's is there already. All processes call it, after a
        step.
        """
        if self.saved != trainer.global_step and not getattr(trainer, "fast_dev_run", False):
            self.within_step = False
            trainer.save_checkpoint(self.folder / LAST)
            self.failed = trainer.strategy.broadcast(
                getattr(trainer.strategy.checkpoint_io, "failed", {})
            )
            self.saved_at = monotonic()
            self.saved = -1 if LAST in self.failed else trainer.global_step

    def stop(self, trainer: L.Trainer) -> None:
        """End after this step, whatever least number of steps or epochs was set."""
        trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
        trainer.should_stop = True

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.enough():  # it goes on from its last step
            self.stop(trainer)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self.within_step = True

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self.within_step = not step_is_over(trainer, batch_idx)
        if self.within_step:
            self._wait(trainer)
            return
        if self._is_last(trainer):
            self.stop(trainer)
        elif "stop" in self.waiting:
            trainer.should_stop = True
        due = "save" in self.waiting or (
            bool(self.every) and trainer.global_step % (self.every or 1) == 0
        )
        if self.interval is not None:
            passed = monotonic() - self.saved_at >= self.interval.total_seconds()
            due |= bool(self.processes.maximum(int(passed)))
        self.waiting.clear()
        if due:
            self.save(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self.saved = -1  # the scores of this validation belong into it
        if self.within_step:
            self.waiting.add("save")
            self._wait(trainer)
        else:
            self.save(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """The last checkpoint, where no validation wrote it: at the end of training averaged
        weights replace those trained on.
        """
        if trainer.should_stop and not self.within_step:
            self.save(trainer)

    def _wait(self, trainer: L.Trainer) -> None:
        """Let a stop that somebody asked for within a step wait until it is over."""
        if trainer.should_stop:
            trainer.should_stop = False
            self.waiting.add("stop")

    def _is_last(self, trainer: L.Trainer) -> bool:
        if 0 <= trainer.max_steps <= trainer.global_step or self.enough():
            return True
        epochs = trainer.max_epochs
        return (
            epochs is not None
            and epochs >= 0
            and trainer.current_epoch + 1 >= epochs
            and trainer.is_last_batch
        )


def step_is_over(trainer: L.Trainer, batch_idx: int) -> bool:
    """Whether the batch just trained on was the last of its step."""
    return trainer.is_last_batch or (batch_idx + 1) % trainer.accumulate_grad_batches == 0
