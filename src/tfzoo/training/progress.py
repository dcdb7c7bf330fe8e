"""The progress of training, validation and test: bars in a terminal, otherwise lines."""

from __future__ import annotations

import sys
from math import inf
from time import monotonic
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import ProgressBar, RichProgressBar

from tfzoo.base.scores import format_scores
from tfzoo.base.terminal import notify

EVERY = 10.0
"""Seconds between lines if stderr is not a terminal."""
SHOWN = {"loss": ("train/loss", ".3f"), "tokens/s": ("train/tokens_per_second", ",.0f")}
"""The metrics that are shown, and their formats."""


def progress_bar() -> ProgressBar:
    """The bar for what stderr is."""
    return Bar(console_kwargs={"stderr": True}) if sys.stderr.isatty() else Lines()


class Bar(RichProgressBar):
    """Lightning's bar with steps, loss and speed, and the scores after each validation."""

    def get_metrics(self, trainer: L.Trainer, pl_module: L.LightningModule) -> dict[str, Any]:
        return {"step": trainer.global_step, **shown(trainer)}

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        super().on_validation_end(trainer, pl_module)
        if self.progress is not None:
            for line in score_lines(trainer):
                self.progress.print(line, markup=False, highlight=False)


class Lines(ProgressBar):
    """A line on stderr every ten seconds of training, and the scores after each validation."""

    is_enabled = True
    said = 0.0

    def print(self, *args: Any, sep: str = " ", **kwargs: Any) -> None:
        """Print a line."""
        notify(sep.join(map(str, args)))

    def disable(self) -> None:
        """On all ranks but the first, which :func:`notify` knows."""

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.said = monotonic()

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        if monotonic() - self.said < EVERY:
            return
        self.said, total = monotonic(), float(trainer.estimated_stepping_batches)
        of_all = f" of {total:.0f}" if total < inf else ""
        words = [f"{name} {value}" for name, value in shown(trainer).items()]
        notify("  ".join([f"training  step {trainer.global_step}{of_all}", *words]))

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for line in score_lines(trainer):
            notify(line)


def shown(trainer: L.Trainer) -> dict[str, str]:
    """Loss and speed of training, as far as they are logged."""
    values = trainer.callback_metrics
    return {
        name: format(float(values[key]), how) for name, (key, how) in SHOWN.items() if key in values
    }


def score_lines(trainer: L.Trainer) -> list[str]:
    """The scores of a validation during training, a line each."""
    if trainer.state.fn != "fit" or trainer.sanity_checking:
        return []
    scores = {
        key: float(value)
        for key, value in trainer.callback_metrics.items()
        if key.startswith("val/")
    }
    step = trainer.global_step
    return [f"step {step}  {name}  {text}" for name, text in format_scores(scores)]
