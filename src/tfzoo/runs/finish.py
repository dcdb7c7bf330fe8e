"""How training ends: with a validation of its last step and a checkpoint of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import Checkpoint

from tfzoo.runs.checkpoints import LAST


class Finish(Checkpoint):
    """Keeps ``last.ckpt`` at each validation, every so many steps or so much time, and at the end; validates the last step.

    Lightning validates once more when training is asked to stop, but not when the last step or epoch is reached: so it is asked to.
    It calls a ``Checkpoint`` after all other callbacks, so that what they know is in the file.
    """

    def __init__(self, folder: Path, every_n_train_steps: int | None = None, train_time_interval: timedelta | None = None) -> None:
        self.folder = folder
        self.every = every_n_train_steps
        self.interval = train_time_interval
        self.saved = -1
        self.saved_at = monotonic()

    def save(self, trainer: L.Trainer) -> None:
        """Write ``last.ckpt`` unless this step's is there already. All processes call it."""
        if self.saved != trainer.global_step and not getattr(trainer, "fast_dev_run", False):
            trainer.save_checkpoint(self.folder / LAST)
            self.saved, self.saved_at = trainer.global_step, monotonic()

    def stop(self, trainer: L.Trainer) -> None:
        """End after this step, whatever least number of steps or epochs was set."""
        trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
        trainer.should_stop = True

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._is_last(trainer):
            self.stop(trainer)
        due = bool(self.every) and trainer.global_step % (self.every or 1) == 0
        if self.interval is not None and trainer.strategy.broadcast(monotonic() - self.saved_at >= self.interval.total_seconds()):
            due = True
        if due:
            self.save(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.saved = -1  # the scores of this validation belong into it
            self.save(trainer)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.save(trainer)

    def _is_last(self, trainer: L.Trainer) -> bool:
        if 0 <= trainer.max_steps <= trainer.global_step:
            return True
        epochs = trainer.max_epochs
        return epochs is not None and epochs >= 0 and trainer.current_epoch + 1 >= epochs and trainer.is_last_batch
