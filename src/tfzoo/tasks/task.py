"""What every task does alike: its optimiser, its random state, its speed, and what its checkpoints hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import lightning.pytorch as L
import torch
from torch import Tensor, nn

from tfzoo.models.start import seed_of
from tfzoo.runs import checkpoints
from tfzoo.tasks.optim import Optim

FORMAT = 1
"""The version of what a checkpoint's key ``tfzoo`` holds."""


class Task(L.LightningModule):
    """A model, its loss and its optimiser, for any ``lightning.pytorch.Trainer``.

    The random state of a step is a function of the seed, the batches trained on and the rank; what was drawn before does not matter.
    ``recipe`` is the configuration that a checkpoint carries, together with the tokenizer: all that is needed to build the task again.
    """

    name: ClassVar[str]
    Model: ClassVar[type[nn.Module]]
    Data: ClassVar[type[L.LightningDataModule]]

    def __init__(self, model: nn.Module, optim: Optim | None, seed: int) -> None:
        super().__init__()
        self.model = model
        self.optim = optim or Optim()
        self.seed = seed
        self.batches = 0
        self.recipe: dict[str, Any] = {"task": self.name, "seed": seed, "optim": asdict(self.optim)}
        self._tokens, self._since = 0, time.perf_counter()

    @classmethod
    def build(cls, recipe: Mapping[str, Any], tokenizer: Any) -> Self:
        """The task that a recipe describes, its parameters started from the recipe's seed."""
        raise NotImplementedError

    def tokenizer_state(self) -> dict[str, Any]:
        """Plain values that :meth:`build` can make its tokenizer of."""
        raise NotImplementedError

    @classmethod
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> Any:
        """What :meth:`tokenizer_state` came from."""
        raise NotImplementedError

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """A trained run, or one checkpoint of it, ready to use; a folder means its best checkpoint.

        Raises:
            BadRun: no such run; or the checkpoint is damaged, of another task, or not a checkpoint of tfzoo.
        """
        path = checkpoints.resolve(run)
        return cls.from_checkpoint(checkpoints.read(path, task=cls.name))

    @classmethod
    def from_checkpoint(cls, checkpoint: Mapping[str, Any]) -> Self:
        """The task that a checkpoint, already read and checked, holds."""
        kept = checkpoint["tfzoo"]
        task = cls.build(kept["recipe"], cls.restore_tokenizer(kept["tokenizer"]))
        task.load_state_dict(checkpoint["state_dict"])
        task.batches = kept["batches"]
        return task.eval()

    def configure_optimizers(self) -> Any:
        steps = self.trainer.estimated_stepping_batches
        return self.optim.configure(self.parameters(), max_steps=int(steps) if steps != float("inf") else 2**31)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["tfzoo"] = {
            "format": FORMAT,
            "task": self.name,
            "recipe": self.recipe,
            "tokenizer": self.tokenizer_state(),
            "batches": self.batches,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.batches = checkpoint["tfzoo"]["batches"]

    def on_train_start(self) -> None:
        self._tokens, self._since = 0, time.perf_counter()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        torch.manual_seed(seed_of(self.seed, "step", self.batches, self.global_rank))

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.batches += 1

    def on_validation_end(self) -> None:
        self._tokens, self._since = 0, time.perf_counter()  # validation is no training time

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self._logs_now():
            gradients = [p.grad for p in self.parameters() if p.grad is not None]
            self.log("train/grad_norm", nn.utils.get_total_norm(gradients))

    def log_training(self, values: Mapping[str, Tensor], tokens: int) -> None:
        """Log a step's values, the learning rate and, at the Trainer's logging steps, tokens per second since the last one."""
        self._tokens += tokens
        self.log("train/loss", values["train/loss"], prog_bar=True)
        if self._logs_now():
            now = time.perf_counter()
            speed = self._tokens / max(now - self._since, 1e-9)
            self._tokens, self._since = 0, now
            self.log_dict({key: value for key, value in values.items() if key != "train/loss"})
            self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
            self.log("train/tokens_per_second", float(speed), prog_bar=True)

    def _logs_now(self) -> bool:
        every = getattr(self.trainer, "log_every_n_steps", 0)
        return bool(every) and (self.trainer.global_step + 1) % every == 0
