"""What is seen of a training: bars in a terminal, otherwise lines; every number that it logs, in
``metrics.csv``; its steps, seconds and tokens per second.
"""

import csv
import sys
from collections.abc import Mapping
from math import inf
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import ProgressBar, RichProgressBar
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from tfzoo.base.files import replacing
from tfzoo.base.scores import format_scores, logged_scores
from tfzoo.base.terminal import notify
from tfzoo.runs.folder import METRICS
from tfzoo.runs.machine import peak_memory

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
        return {"step": f"{trainer.global_step:,}", **shown(trainer)}

    def configure_columns(self, trainer: L.Trainer) -> list[Any]:
        """All but the batches a second, so that the line fits into 80 columns."""
        return super().configure_columns(trainer)[:-1]

    def _get_train_description(self, current_epoch: int) -> str:
        """Without the number of epochs, which Lightning calls -2 where only steps are given."""
        return f"Epoch {current_epoch}".ljust(len(self.validation_description))

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        super().on_validation_end(trainer, pl_module)
        if self.progress is not None:
            for line in score_lines(trainer):
                self.progress.print(line, markup=False, highlight=False)


class Lines(ProgressBar):
    """A line on stderr every ten seconds of training, and the scores after each validation."""

    is_enabled = False  # as a bar: it reads what is logged every ten seconds
    said = 0.0

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


def validation_scores(trainer: L.Trainer) -> dict[str, float]:
    """The scores of the last validation of a training."""
    found = logged_scores(trainer).items()
    return {name: score for name, score in found if name.startswith("val/")}


def score_lines(trainer: L.Trainer) -> list[str]:
    """The scores of a validation during training, a line each."""
    if trainer.state.fn != "fit" or trainer.sanity_checking:
        return []
    rows = format_scores(validation_scores(trainer))
    return [f"step {trainer.global_step}  {name}  {text}" for name, text in rows]


class MetricsFile(Logger):
    """A Lightning logger that appends each row to ``metrics.csv`` at once, so that a run that is
    killed loses none. A new metric adds a column.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / METRICS
        self.columns: list[str] = ["step"]
        self.rows = 0

    @property
    def name(self) -> str:
        return ""

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str:
        return str(self.path.parent)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing: ``config.yaml`` holds them."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if metrics.keys() <= {"epoch"}:  # Lightning's at the end of an epoch; not after a resume
            return
        numbers = {key: float(f"{float(value):.6g}") for key, value in metrics.items()}
        self._append({"step": step, **numbers})
        self.rows += 1

    def go_on(self, rows: int) -> None:
        """Keep the first ``rows``, which were written before the checkpoint."""
        kept = self._read()[:rows]
        self._rewrite(kept, list(kept[0]) if kept else ["step"])
        self.rows = len(kept)

    def _append(self, row: Mapping[str, Any]) -> None:
        new = [key for key in row if key not in self.columns]
        if new or not self.path.exists():
            self._rewrite(self._read(), [*self.columns, *new])
        with self.path.open("a", newline="", encoding="utf-8") as stream:
            csv.DictWriter(stream, self.columns).writerow(row)

    def _read(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))

    def _rewrite(self, rows: list[dict[str, str]], columns: list[str]) -> None:
        with (
            replacing(self.path) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as stream,
        ):
            writer = csv.DictWriter(stream, columns)
            writer.writeheader()
            writer.writerows(rows)
        self.columns = columns


class Throughput(L.Callback):
    """Counts tokens and seconds, on from those of a checkpoint. Tokens are those that the task
    counts in its attribute ``tokens``, of all processes; training seconds are without validation.
    """

    trainer: L.Trainer

    def __init__(self) -> None:
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
        self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        now = perf_counter()
        self.training, self.since = self.training + now - self.since, now
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
        return {"tokens": self._sum_tokens(), "training": self.training, "seconds": self._seconds()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.training = float(state_dict["training"])
        self.before = {key: float(state_dict[key]) for key in ("tokens", "seconds")}

    def counts(self) -> dict[str, Any]:
        """The numbers of ``summary.json``, of all attempts together."""
        found: dict[str, Any] = {"seconds": round(self._seconds(), 1)}
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
