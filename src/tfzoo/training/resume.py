"""Training goes on exactly where a checkpoint was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning.pytorch as L

from tfzoo.base import adapters
from tfzoo.errors import BadRun
from tfzoo.training.progress import MetricsFile, validation_scores


class Resume(L.Callback):
    """Continues training after the last batch of a checkpoint, also on another number of processes:
    with the validations, epochs and rows of ``metrics.csv`` that would have followed without an
    interruption. The batches are the loaders' (:mod:`tfzoo.data.loaders`).

    Lightning takes the step at which training stopped for the end of an epoch, so its counters are
    set from the number of batches that the task counts.

    ``scores`` are those of the last validation, which may have been before the checkpoint;
    ``start`` is the step of the checkpoint. ``begun``: the first batch is over, before which a
    checkpoint can be refused; ``begin`` is called then.
    """

    trainer: L.Trainer

    def __init__(self, file: MetricsFile, begin: Callable[[], None]) -> None:
        self.file, self.begin = file, begin
        self.begun = False
        self.scores: dict[str, float] = {}
        self.start = 0

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        return {
            "scores": self.scores,
            "processes": self.trainer.world_size,
            "accumulated": self.trainer.accumulate_grad_batches,
            "rows": self.file.rows,
        }

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if trainer.state.fn != "fit":
            return
        kept = checkpoint["callbacks"].get(self.state_key, {})
        before, now = kept.get("processes", trainer.world_size), trainer.world_size
        accumulated = kept.get("accumulated", trainer.accumulate_grad_batches)
        if before * accumulated != now * trainer.accumulate_grad_batches:
            raise BadRun(
                f"a step of this run took {before * accumulated} batches ({before} processes, "
                f"{accumulated} accumulated), not "
                f"{now * trainer.accumulate_grad_batches}: set --trainer.devices or "
                "--trainer.accumulate_grad_batches so that it does again"
            )
        self.scores, self.start = kept.get("scores", {}), checkpoint["global_step"]
        if trainer.is_global_zero:
            self.file.go_on(kept.get("rows", 0))
        task: Any = pl_module
        task.batches = task.batches * before // now  # of each process
        loops = checkpoint["loops"]["fit_loop"]
        if 0 <= trainer.max_steps <= self.start:  # no step is left: its epoch has ended
            for kind in loops["epoch_progress"].values():
                kind["completed"] = kind["processed"]
            return
        trainer.fit_loop.setup_data()
        passed = loops["epoch_progress"]["current"]["processed"]
        loops |= loop_state(task.batches, int(trainer.num_training_batches), passed)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        # where a validation was the last of a checkpoint, Lightning counts its step twice
        adapters.set_logged_step(trainer, trainer.global_step)

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        if not self.begun:
            self.begun = True
            self.begin()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.scores = validation_scores(trainer)


def loop_state(done: int, epoch_batches: int, passed: int) -> dict[str, Any]:
    """Lightning's state of its loops after ``done`` batches and ``passed`` whole epochs.

    An epoch whose batches are done has not passed before ``on_train_epoch_end`` was called.
    """
    epoch, batch = divmod(done, epoch_batches)
    if done and not batch and passed < epoch:
        epoch, batch = epoch - 1, epoch_batches
    begun = epoch + bool(batch)
    epochs = {"ready": begun, "started": begun, "processed": epoch, "completed": epoch}
    return {
        "epoch_progress": {"total": epochs, "current": dict(epochs)},
        "epoch_loop.batch_progress": {
            "total": counters(done),
            "current": counters(batch),
            "is_last_batch": batch == epoch_batches,
        },
        "epoch_loop.val_loop.batch_progress": {
            "total": counters(0),
            "current": counters(0),
            "is_last_batch": False,
        },
    }


def counters(count: int) -> dict[str, int]:
    """Lightning's counters of something that is complete."""
    return dict.fromkeys(("ready", "started", "processed", "completed"), count)
