"""A training that is stopped between two steps goes on exactly there: the checkpoint, the end by a
limit or a signal, and what is restored.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Checkpoint

from tfzoo.base import adapters
from tfzoo.base.processes import ARRIVALS, STOPPED
from tfzoo.errors import BadRun
from tfzoo.runs.checkpoints import LAST
from tfzoo.training.processes import Processes
from tfzoo.training.progress import MetricsFile, validation_scores
from tfzoo.training.trainer import BestCheckpoint


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

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if ARRIVALS.held:  # after training
            ARRIVALS.install()

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
        if trainer.should_stop:
            trainer.check_val_every_n_epoch = None  # this last epoch is validated, too

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
        epochs = trainer.max_epochs or -1
        return 0 <= epochs <= trainer.current_epoch + 1 and trainer.is_last_batch


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
        for one in trainer.checkpoint_callbacks:
            if isinstance(one, BestCheckpoint):
                with suppress(Exception):  # of a file by a stranger, which Lightning then ignores
                    states = checkpoint["callbacks"]
                    states[one.state_key] = moved(states[one.state_key], one)
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


def moved(state: dict[str, Any], best: BestCheckpoint) -> dict[str, Any]:
    """The state of the best checkpoints of a run whose folder may have been moved, of which
    Lightning would forget the scores.
    """
    folder = str(best.dirpath)
    kept = {
        str(Path(folder, Path(path).name)): torch.tensor(float(score), dtype=torch.float64)
        for path, score in state["best_k_models"].items()
    }
    order = sorted(kept, key=kept.__getitem__, reverse=best.mode == "max")
    top, kth = order[0], order[-1]
    return {
        **state,
        **{"dirpath": folder, "best_k_models": kept, "best_model_path": top},
        **{"best_model_score": kept[top], "kth_best_model_path": kth, "kth_value": kept[kth]},
    }


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
