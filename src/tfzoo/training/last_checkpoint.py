"""Between two steps: a checkpoint, and the end of training by a limit or a signal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import Checkpoint

from tfzoo.base import adapters
from tfzoo.base.processes import ARRIVALS, STOPPED
from tfzoo.runs.checkpoints import LAST
from tfzoo.training.processes import Processes


class LastCheckpoint(Checkpoint):
    """Writes ``last.ckpt`` after each validation, every ``every_n_train_steps`` steps or
    ``train_time_interval``, and at the end of training; validates after the last step.

    The last step is Lightning's, or the first after which ``enough()`` is true; all processes call
    it.

    It is written between two batches, when validation and logging of the one before are over, so
    that Lightning's own state of its loops is complete; and only between two steps: gradients that
    are accumulated over several batches are in no checkpoint.

    After SIGTERM or SIGUSR1, which give little time, training ends there with a checkpoint. After
    Ctrl-C it ends as after its last step, with one more step and a validation. A signal may reach
    one process or all of them, so they agree. ``code`` is the exit code that was agreed on, 0 while
    training goes on.

    Lightning validates once more when ``should_stop`` is set, but not when the last step or epoch
    is reached; this callback sets it then. It is a ``Checkpoint`` because Lightning calls those
    after all other callbacks.
    """

    def __init__(
        self,
        folder: Path,
        every_n_train_steps: int | None,
        train_time_interval: timedelta | None,
        enough: Callable[[], bool],
        processes: Processes,
    ) -> None:
        self.folder, self.processes = folder, processes
        self.every, self.interval = every_n_train_steps, train_time_interval
        self.enough = enough
        self.code = 0
        self.saved, self.saved_at = 0, monotonic()
        self.due = self.stops = self.within_step = False
        """Whether to save, and to stop, after this step; whether it is not over."""

    def state_dict(self) -> dict[str, Any]:
        """Marks checkpoints that other callbacks wrote between the batches of one step."""
        return {"within_step": self.within_step}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        ARRIVALS.install()  # after Lightning's own, which would not agree with other processes
        ARRIVALS.held = True
        self.saved, self.saved_at = trainer.global_step, monotonic()
        adapters.before_each_batch(trainer, partial(self.between_batches, trainer))
        if self.enough():  # it goes on from a checkpoint of its last step
            self.stop(trainer)

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        ARRIVALS.install()

    def between_batches(self, trainer: L.Trainer) -> None:
        """Save and stop, if it is time to; all processes call it."""
        if self.within_step:
            return
        self.code = self.processes.maximum(ARRIVALS.code)
        if self.code or self.is_time(trainer):
            self.save(trainer)
        if self.code == STOPPED:
            raise SystemExit(STOPPED)
        if self.code:
            self.stop(trainer)

    def is_time(self, trainer: L.Trainer) -> bool:
        """Whether to save; all processes must call it."""
        if self.every and trainer.global_step % self.every == 0:
            return True
        if self.interval is None:
            return self.due
        passed = monotonic() - self.saved_at >= self.interval.total_seconds()
        return bool(self.processes.maximum(int(passed or self.due)))

    def save(self, trainer: L.Trainer) -> None:
        """Write ``last.ckpt``, unless there is one of this step and its validation. All processes
        must call it.
        """
        is_new = self.due or self.saved != trainer.global_step
        if is_new and not getattr(trainer, "fast_dev_run", False):
            trainer.save_checkpoint(self.folder / LAST)
            self.saved, self.saved_at, self.due = trainer.global_step, monotonic(), False

    def stop(self, trainer: L.Trainer) -> None:
        """End training after this step, whatever ``min_steps`` and ``min_epochs`` are."""
        trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
        trainer.should_stop = True

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
        is_over = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        self.within_step = not (is_over or trainer.is_last_batch)
        if self.within_step:
            self._wait(trainer)
        elif self.is_last(trainer):
            self.stop(trainer)
        elif self.stops:
            trainer.should_stop = True

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.due = True
            if self.within_step:
                self._wait(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the last checkpoint: at the end of training, averaged weights replace the trained
        ones.
        """
        if trainer.should_stop and not self.within_step:
            self.save(trainer)

    def _wait(self, trainer: L.Trainer) -> None:
        """Delay a stop that was asked for within a step until the step is over."""
        if trainer.should_stop:
            trainer.should_stop, self.stops = False, True

    def is_last(self, trainer: L.Trainer) -> bool:
        """Whether the current step is the last one of training."""
        if 0 <= trainer.max_steps <= trainer.global_step or self.enough():
            return True
        epochs = -1 if trainer.max_epochs is None else trainer.max_epochs
        return 0 <= epochs <= trainer.current_epoch + 1 and trainer.is_last_batch
