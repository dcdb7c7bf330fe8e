"""What training cost: steps, seconds, tokens per second, memory."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import lightning.pytorch as L
import torch

from tfzoo.runs.summary import peak_memory


class Throughput(L.Callback):
    """Counts steps, the tokens that the task says it trained on, and the seconds spent on training
    steps; validation is not among them.

    A training that goes on goes on counting.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.tokens: Any = (
            0  # of this process: a number, or a tensor on the device, fetched when it is asked for
        )
        self.training = 0.0
        self.started = self.since = perf_counter()
        self.total = 0  # tokens of all processes, when they were last added up
        self.before: dict[str, float] = {"tokens": 0, "seconds": 0.0}
        self.trainer: L.Trainer | None = None

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.trainer = trainer

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.started = self.since = perf_counter()

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        now = perf_counter()
        self.training, self.since = self.training + now - self.since, now
        self.steps = trainer.global_step
        self.tokens = getattr(pl_module, "tokens", 0)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.since = perf_counter()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._add_up()

    def has_trained(self, tokens: int | None) -> bool:
        """Whether so many tokens were trained on, in all attempts and by all processes, which all
        ask.
        """
        if tokens is None:
            return False
        self._add_up()
        return self.before["tokens"] + self.total >= tokens

    def state_dict(self) -> dict[str, Any]:
        self._add_up()
        tokens, seconds = (
            self.before["tokens"] + self.total,
            self.before["seconds"] + perf_counter() - self.started,
        )
        return {
            "steps": self.steps,
            "tokens": tokens,
            "training": self.training,
            "seconds": seconds,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps, self.training = state_dict["steps"], state_dict["training"]
        self.before = {"tokens": state_dict["tokens"], "seconds": state_dict["seconds"]}

    def counts(self) -> dict[str, Any]:
        """For the summary, of all attempts together."""
        seconds = self.before["seconds"] + perf_counter() - self.started
        found: dict[str, Any] = {"steps": self.steps, "seconds": round(seconds, 1)}
        if (
            tokens := int(self.before["tokens"] + max(self.total, int(self.tokens)))
        ) and self.training:
            found |= {
                "tokens": tokens,
                "train_seconds": round(self.training, 2),
                "tokens_per_second": round(tokens / self.training),
            }
        return {**found, "peak_memory": peak_memory()}

    def _add_up(self) -> None:
        """The tokens of all processes, which all call this."""
        self.total = int(self.tokens)
        if self.trainer is not None and self.trainer.world_size > 1:
            here = torch.tensor(self.total, device=self.trainer.strategy.root_device)
            self.total = int(self.trainer.strategy.reduce(here, reduce_op="sum"))
