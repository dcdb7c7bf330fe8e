"""What training cost: steps, seconds, tokens per second, memory."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import lightning.pytorch as L
import torch

from tfzoo.runs.machine import peak_memory


class Throughput(L.Callback):
    """Counts optimiser steps, tokens and seconds.

    Tokens are those that the task counts in its attribute ``tokens``, of all processes. Training
    seconds are those of training steps, without validation. When training goes on from a
    checkpoint, all counts go on too.
    """

    trainer: L.Trainer

    def __init__(self) -> None:
        self.steps = 0
        self.tokens: Any = 0
        """Of this process, since training started or went on. A tensor stays on its device until it
        is asked for, so that no step waits for the device."""
        self.total = 0  # tokens of all processes, when they were last summed
        self.training = 0.0
        self.started = self.since = perf_counter()
        self.before: dict[str, float] = {"tokens": 0, "seconds": 0.0}  # of earlier attempts

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
        self._sum_tokens()

    def has_trained(self, tokens: int | None) -> bool:
        """Whether all attempts and processes together have trained on so many tokens; False where
        there is no such limit. All processes must call it.
        """
        return tokens is not None and self._sum_tokens() >= tokens

    def state_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "tokens": self._sum_tokens(),
            "training": self.training,
            "seconds": self._seconds(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps, self.training = int(state_dict["steps"]), float(state_dict["training"])
        self.before = {key: state_dict[key] for key in ("tokens", "seconds")}

    def counts(self) -> dict[str, Any]:
        """The numbers of ``summary.json``, of all attempts together."""
        found: dict[str, Any] = {"steps": self.steps, "seconds": round(self._seconds(), 1)}
        tokens = int(self.before["tokens"] + max(self.total, int(self.tokens)))
        if tokens and self.training:
            found |= {
                "tokens": tokens,
                "train_seconds": round(self.training, 2),
                "tokens_per_second": round(tokens / self.training),
            }
        return {**found, "peak_memory": peak_memory()}

    def _seconds(self) -> float:
        return self.before["seconds"] + perf_counter() - self.started

    def _sum_tokens(self) -> int:
        """The tokens of all attempts and processes, which must all call it."""
        own = torch.tensor(int(self.tokens), device=self.trainer.strategy.root_device)
        self.total = int(self.trainer.strategy.reduce(own, reduce_op="sum"))
        return int(self.before["tokens"]) + self.total
