"""Training ends with a validation and a checkpoint of its last step."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import lightning.pytorch as L
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import Checkpoint

from tfzoo.runs.checkpoints import LAST
from tfzoo.runs.files import remove_leftovers

ANSWER = timedelta(seconds=30)
"""How long other processes wait for the first, which asks who is there."""


class LastCheckpoint(Checkpoint):
    """Writes ``last.ckpt`` after each validation, every ``every_n_train_steps`` steps or
    ``train_time_interval``, and at the end of training; validates after the last step.

    The last step is Lightning's, or the first after which ``enough()`` is true; all processes call
    it.

    ``last.ckpt`` is written, and training ends, only between steps: gradients that are accumulated
    over several batches are in no checkpoint.

    Lightning validates once more when ``should_stop`` is set, but not when the last step or epoch
    is reached; this callback sets it then. It is a ``Checkpoint`` because Lightning calls those
    after all other callbacks, so that the file holds their states.
    """

    def __init__(
        self,
        folder: Path,
        every_n_train_steps: int | None,
        train_time_interval: timedelta | None,
        enough: Callable[[], bool],
    ) -> None:
        self.folder = folder
        self.enough = enough
        self.every = every_n_train_steps
        self.interval = train_time_interval
        self.saved = -1
        self.saved_at = monotonic()
        self.within_step = False
        self.processes = HostGroup()
        """All processes of the training, which agree on when to save and when to stop."""
        self.waiting: set[str] = set()
        """What to do after the step: ``save``, ``stop``."""

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.saved_at = monotonic()  # data was prepared since this was made
        if stage == "fit" and trainer.is_global_zero:
            remove_leftovers(self.folder)

    def state_dict(self) -> dict[str, Any]:
        """Marks checkpoints that other callbacks wrote between the batches of one step."""
        return {"within_step": self.within_step}

    def save(self, trainer: L.Trainer) -> None:
        """Write ``last.ckpt``, unless it is of this step already. All processes must call it, after
        a step.
        """
        if self.saved != trainer.global_step and not getattr(trainer, "fast_dev_run", False):
            self.within_step = False
            trainer.save_checkpoint(self.folder / LAST)
            self.saved_at, self.saved = monotonic(), trainer.global_step

    def stop(self, trainer: L.Trainer) -> None:
        """End training after this step, whatever ``min_steps`` and ``min_epochs`` are."""
        trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
        trainer.should_stop = True

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.enough():  # it goes on from a checkpoint of its last step
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
        if self.is_last(trainer):
            self.stop(trainer)
        elif "stop" in self.waiting:
            trainer.should_stop = True
        due = "save" in self.waiting
        if self.every:
            due |= trainer.global_step % self.every == 0
        if self.interval is not None:
            passed = monotonic() - self.saved_at >= self.interval.total_seconds()
            due |= bool(self.processes.maximum(int(passed)))
        self.waiting.clear()
        if due:
            self.save(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self.saved = -1  # a checkpoint of this step holds no scores of this validation yet
        if self.within_step:
            self.waiting.add("save")
            self._wait(trainer)
        else:
            self.save(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the last checkpoint where no validation did. It cannot wait for the end of
        training, when averaged weights replace the trained ones.
        """
        if trainer.should_stop and not self.within_step:
            self.save(trainer)

    def _wait(self, trainer: L.Trainer) -> None:
        """Delay a stop that was asked for within a step until the step is over."""
        if trainer.should_stop:
            trainer.should_stop = False
            self.waiting.add("stop")

    def is_last(self, trainer: L.Trainer) -> bool:
        """Whether the current step is the last one of training."""
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
    """Whether the batch was the last of its step (``accumulate_grad_batches``)."""
    return trainer.is_last_batch or (batch_idx + 1) % trainer.accumulate_grad_batches == 0


class HostGroup:
    """All processes of a training, connected through their CPUs (gloo).

    NCCL moves tensors of the GPU alone: to agree through it, each process would wait until its GPU
    has finished all that was asked of it, in every step.
    """

    timeout: timedelta | None = None
    """After this, an operation that one process does not join fails in the others."""

    def __init__(self) -> None:
        self._group: Any = None
        self._asked: Any = None  # a group whose operations were in order so far

    def maximum(self, value: int) -> int:
        """The largest value of any process; all processes must call it. Where there is one process,
        its own value.
        """
        if not self._connected():
            return value
        found = torch.tensor(value)
        dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self._group)
        return int(found)

    def missing(self, seconds: float) -> str:
        """The processes that do not answer, such as ``rank 1``; ``""`` where all do. All that live
        must call it: the first asks each of them.
        """
        if self._group is None or not self._connected():
            return ""
        try:
            dist.monitored_barrier(self._asked, timedelta(seconds=seconds), wait_all_ranks=True)
        except RuntimeError as error:
            if dist.get_rank():
                return "rank 0"
            found = re.search(r"Ranks? ([\d, ]+) failed", str(error))
            return f"rank {found[1].strip()}" if found else ""
        return ""

    def _connected(self) -> bool:
        """Whether there are several processes, which are connected now."""
        if not dist.is_initialized() or dist.get_world_size() < 2:
            return False
        if self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=self.timeout)
            self._asked = dist.new_group(backend="gloo", timeout=ANSWER)
        return True
