"""The progress of training: a bar in a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import ProgressBar, Timer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tfzoo.terminal import notify

EVERY = 10.0
"""Seconds between lines if stderr is not a terminal."""


class Bar(ProgressBar):
    """Shows steps, time, loss and speed during training, and the scores after each validation."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = 0.0
        self.started = monotonic()
        self.bar: Progress | None = None
        self.on = True

    def enable(self) -> None:
        self.on = True

    def disable(self) -> None:
        self.on = False

    @property
    def is_enabled(self) -> bool:
        return self.on

    def print(self, *args: Any, sep: str = " ", **kwargs: Any) -> None:
        """Print a line above the bar."""
        text = sep.join(map(str, args))
        if self.bar is not None:
            self.bar.console.print(text, markup=False, highlight=False)
        else:
            notify(text)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.started = monotonic()
        if self.on and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[text]}"),
                TimeElapsedColumn(),
            )
            self.bar = Progress(
                *columns, console=Console(stderr=True), redirect_stdout=sys.stdout.isatty()
            )
            self.bar.add_task("training", total=self._total(trainer), text="")
            self.bar.start()

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if not self.on or monotonic() - self.shown < (0.2 if self.bar else EVERY):
            return
        self.shown = monotonic()
        text = self._line(trainer)
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=trainer.global_step, text=text)
        else:
            notify(f"{self.shown - self.started:6.0f} s  {text}")

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.on and trainer.state.fn == "fit" and not trainer.sanity_checking:
            known = {
                key: value
                for key, value in trainer.callback_metrics.items()
                if key.startswith("val/") and key != "val/items"
            }
            scores = {key: float(value) for key, value in known.items()}
            text = "  ".join(f"{key} {value:.4g}" for key, value in sorted(scores.items()))
            self.print(f"{monotonic() - self.started:6.0f} s  step {trainer.global_step}  {text}")

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _total(self, trainer: L.Trainer) -> float | None:
        """Return the number of steps of the training; None if it is not known."""
        timed = any(isinstance(callback, Timer) for callback in trainer.callbacks)  # type: ignore[attr-defined]  # a Trainer has them
        steps = trainer.estimated_stepping_batches
        return None if timed or steps == float("inf") else steps

    def _line(self, trainer: L.Trainer) -> str:
        values = trainer.callback_metrics
        total = self._total(trainer)
        text = f"step {trainer.global_step}" + (f" of {total:.0f}" if total else "")
        for key, shown in (
            ("train/loss", "loss {:.3f}"),
            ("train/tokens_per_second", "{:,.0f} tokens/s"),
        ):
            if key in values:
                text += "  " + shown.format(float(values[key]))
        return text
