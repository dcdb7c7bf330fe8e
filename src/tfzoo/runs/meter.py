"""What training cost: steps, seconds, tokens per second, memory."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import lightning.pytorch as L
import torch

from tfzoo.runs.summary import peak_memory


class Meter(L.Callback):
    """Counts steps, the tokens that the task says it trained on, and the seconds spent on training steps; validation is not among them."""

    def __init__(self) -> None:
        self.steps = 0
        self.tokens: Any = 0  # a number, or a tensor on the device, fetched at the end
        self.training = 0.0
        self.started = self.since = perf_counter()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.started = self.since = perf_counter()

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        now = perf_counter()
        self.training, self.since = self.training + now - self.since, now
        self.steps = trainer.global_step
        self.tokens = getattr(pl_module, "tokens", 0)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.since = perf_counter()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.world_size > 1:
            total = torch.tensor(float(self.tokens), device=pl_module.device)
            self.tokens = int(trainer.strategy.reduce(total, reduce_op="sum"))

    def counts(self) -> dict[str, Any]:
        """For the summary."""
        found: dict[str, Any] = {"steps": self.steps, "seconds": round(perf_counter() - self.started, 1)}
        if self.tokens and self.training:
            found["tokens_per_second"] = round(float(self.tokens) / self.training)
        return {**found, "peak_memory": peak_memory()}
