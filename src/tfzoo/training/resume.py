"""Training goes on exactly where a checkpoint was written."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L

from tfzoo.base import adapters
from tfzoo.errors import BadRun
from tfzoo.training.last_checkpoint import LastCheckpoint, step_is_over
from tfzoo.training.metrics_file import MetricsFile

STATES = ("optimizer_states", "lr_schedulers")


class Resume(L.Callback):
    """Continues training after the last batch of a checkpoint: with the batches, validations and
    rows of ``metrics.csv`` that would have followed without an interruption.

    Lightning's state of its loops depends on the hook in which it was saved: a validation that was
    due may be left out, an epoch begun again, a step counted twice. This callback replaces it,
    before Lightning reads it, by a state computed from the number of batches that the task counts.
    A checkpoint at the end of a batch is written before the row of its step and a validation that
    is due: the row is kept in the checkpoint, the validation is made when training goes on.

    ``scores`` are those of the last validation, which may have been before the checkpoint;
    ``start`` is the step of the checkpoint.
    """

    trainer: L.Trainer

    def __init__(self, last: LastCheckpoint, file: MetricsFile) -> None:
        self.last, self.file = last, file
        self.scores: dict[str, float] = {}
        self.start = 0
        self.missed = False
        self.limit = -1
        self.states: dict[str, int] = {}
        """How many states of each kind the checkpoint has."""
        self.went_on = False
        """Whether a step was made."""

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        return {
            "scores": self.scores,
            "processes": self.trainer.world_size,
            "accumulated": self.trainer.accumulate_grad_batches,
            "rows": self.file.rows,
            "row": pending(self.trainer),
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
            self.file.go_on(kept.get("rows", 0), kept.get("row"))
        self.states = {key: len(checkpoint[key]) for key in STATES if key in checkpoint}
        loops = checkpoint["loops"]["fit_loop"]
        batch = loops["epoch_loop.batch_progress"]["current"]
        self.missed = batch["completed"] < batch["processed"]
        task: Any = pl_module
        task.batches = done = task.batches * before // now  # of each process
        trainer.fit_loop.setup_data()
        loops |= loop_state(
            done,
            int(trainer.num_training_batches),
            loops["epoch_progress"]["current"]["processed"],
            self.start,
        )
        if (
            0 <= trainer.max_steps <= self.start and not self.missed
        ):  # no step is left, so the epoch of the last one has ended
            for kind in loops["epoch_progress"].values():
                kind["processed"] = kind["completed"] = kind["ready"]
        if trainer.strategy.restore_checkpoint_after_setup:
            self._raise_limit(trainer)

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._raise_limit(trainer)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        made = [len(trainer.optimizers), len(trainer.lr_scheduler_configs)]
        for key, count in zip(STATES, made, strict=True):
            if self.states.get(key, count) != count:
                raise BadRun(f"the checkpoint holds {self.states[key]} {key}, not {count}")
        if not self.start:
            return
        fit, loop = trainer.fit_loop, trainer.fit_loop.epoch_loop
        due = loop.restarting and adapters.validation_is_due(trainer)
        batches = loop.batch_progress.current
        is_over = batches.completed == trainer.num_training_batches and not due
        ended = self.limit >= 0
        if ended:
            loop.max_steps, self.limit = self.limit, -1
        if self.missed and trainer.enable_validation and (due or self.last.is_last(trainer)):
            # as in a validation that was not missed
            adapters.set_logged_step(trainer, self.start - 1)
            trainer.validating = True
            loop.val_loop.run()
            trainer.training = True
            due = due and not ended and not loop.batch_progress.is_last_batch
        # Lightning skips a validation that is due and done, and counts a step when it does.
        adapters.set_logged_step(trainer, self.start - 1 if due else self.start)
        self.missed = False
        if ended or is_over:  # Lightning would take one batch more before it ends the epoch
            fit.on_advance_end()
            fit.reset_restart_stage()
            loop.restarting = False

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self.went_on |= step_is_over(trainer, batch_idx)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.scores = {
                key: float(value)
                for key, value in trainer.callback_metrics.items()
                if key.startswith("val/")
            }

    def _raise_limit(self, trainer: L.Trainer) -> None:
        """Raise ``max_steps`` by 1 where the last step is reached but its validation is missing:
        Lightning would not start at all.
        """
        loop = trainer.fit_loop.epoch_loop
        if (
            self.missed
            and self.limit < 0
            and 0 <= loop.max_steps <= self.start
            and trainer.enable_validation
        ):
            self.limit, loop.max_steps = loop.max_steps, self.start + 1


def pending(trainer: L.Trainer) -> dict[str, float] | None:
    """The values that the current step logged, where Lightning passes them to loggers only after
    the checkpoint.
    """
    batch: Any = trainer.fit_loop.epoch_loop.batch_progress.current
    if (
        not trainer.training
        or batch.completed == batch.processed
        or adapters.is_accumulating(trainer)
        or (logged := adapters.values_to_log(trainer)) is None
    ):
        return None
    return {**logged, "epoch": trainer.current_epoch, "step": adapters.logged_step(trainer) + 1}


def loop_state(done: int, epoch_batches: int, passed: int, step: int) -> dict[str, Any]:
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
        "epoch_loop.state_dict": {"_batches_that_stepped": step},
    }


def counters(count: int) -> dict[str, int]:
    """Lightning's counters of something that is complete."""
    return dict.fromkeys(("ready", "started", "processed", "completed"), count)
