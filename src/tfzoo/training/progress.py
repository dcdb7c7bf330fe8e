"""The progress of training, validation and test: bars in a terminal, otherwise lines."""

from __future__ import annotations

import sys
from datetime import timedelta
from math import inf
from time import monotonic
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from tfzoo.base.scores import format_scores
from tfzoo.base.terminal import notify, wrap
from tfzoo.training.trainer import seconds_left

EVERY = 10.0
"""Seconds between lines if stderr is not a terminal."""
REDRAW = 0.2
"""Seconds between two changes of a bar."""


class Bar(ProgressBar):
    """Shows steps, loss, speed and the time left of a training, the batches of a validation or
    test, and the scores after each validation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on = True
        self.shown = 0.0
        self.started = self.scoring_since = monotonic()
        self.first_step = self.scored = 0
        self.bar: Progress | None = None
        self.rows: dict[str, TaskID] = {}

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
            self.bar.console.print(wrap(text, sys.stderr), markup=False, highlight=False)
        else:
            notify(text)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.started, self.first_step = monotonic(), trainer.global_step
        self.shown = 0.0 if self._on_terminal() else monotonic()
        self._show("training", trainer.global_step, total_steps(trainer), "")

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if self._is_due():
            self._show_step(trainer)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._on_terminal():  # a bar ends at the last step, however short ago it was drawn
            self._show_step(trainer)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.scored, self.scoring_since = 0, monotonic()

    on_test_start = on_validation_start

    def on_validation_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        self._score_batch("validation", trainer.num_val_batches)

    def on_test_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        self._score_batch("test", trainer.num_test_batches)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._remove("validation")
        if self.on and trainer.state.fn == "fit" and not trainer.sanity_checking:
            scores = {
                key: float(value)
                for key, value in trainer.callback_metrics.items()
                if key.startswith("val/")
            }
            for name, text in format_scores(scores):
                self.print(f"{self._elapsed()}  step {trainer.global_step}  {name}  {text}")

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._remove("test")

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar, self.rows = None, {}

    def _show_step(self, trainer: L.Trainer) -> None:
        total = total_steps(trainer)
        self._show("training", trainer.global_step, total, self._line(trainer, total))

    def _score_batch(self, what: str, batches: Any) -> None:
        self.scored += 1
        if self._is_due():
            total = sum(batches) if isinstance(batches, list) else batches
            text = f"batch {self.scored}" + (f" of {total:.0f}" if total < inf else "")
            left = time_left(self.scored, total, monotonic() - self.scoring_since)
            self._show(what, self.scored, total, f"{text}{left}")

    def _on_terminal(self) -> bool:
        """A bar, once begun, stands between; older versions of rich then say that it is none."""
        return self.bar is not None or sys.stderr.isatty()

    def _is_due(self) -> bool:
        return self.on and monotonic() - self.shown >= (REDRAW if self._on_terminal() else EVERY)

    def _show(self, what: str, done: int, total: float, text: str) -> None:
        """Show a row of the bar, or print a line if there is something to say."""
        if not self.on:
            return
        self.shown = monotonic()
        if not self._on_terminal():
            if text:
                notify(f"{self._elapsed()}  {what}  {text}")
            return
        if self.bar is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[text]}"),
                TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=len("0:00:00"))),
            )
            console = Console(stderr=True)
            self.bar = Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty())
            self.bar.start()
        if what not in self.rows:
            known = None if total == inf else total
            self.rows[what] = self.bar.add_task(what, total=known, text="")
        self.bar.update(self.rows[what], completed=done, text=text)

    def _remove(self, what: str) -> None:
        if self.bar is not None and what in self.rows:
            self.bar.remove_task(self.rows.pop(what))

    def _seconds(self) -> float:
        return monotonic() - self.started

    def _elapsed(self) -> str:
        return str(timedelta(seconds=round(self._seconds())))

    def _line(self, trainer: L.Trainer, total: float) -> str:
        values = trainer.callback_metrics
        text = f"step {trainer.global_step}" + (f" of {total:.0f}" if total < inf else "")
        for key, shown in (
            ("train/loss", "loss {:.3f}"),
            ("train/tokens_per_second", "{:,.0f} tokens/s"),
        ):
            if key in values:
                text += "  " + shown.format(float(values[key]))
        if (left := seconds_left(trainer)) < inf:
            return f"{text}  at most {timedelta(seconds=round(left))} left"
        done = trainer.global_step - self.first_step
        return text + time_left(done, total - self.first_step, self._seconds())


def time_left(done: int, total: float, seconds: float) -> str:
    """``"  0:01:30 left"`` if ``done`` of ``total`` took ``seconds``; ``""`` if it is not known."""
    if not done or total == inf:
        return ""
    return f"  {timedelta(seconds=round(seconds * max(total - done, 0) / done))} left"


def total_steps(trainer: L.Trainer) -> float:
    """The number of steps at which training ends; infinite if it is not known."""
    return inf if seconds_left(trainer) < inf else float(trainer.estimated_stepping_batches)
