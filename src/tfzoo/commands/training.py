"""One training from its first step to its summary."""

from __future__ import annotations

import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import ModelCheckpoint

from tfzoo.commands import trainer
from tfzoo.commands.job import Job
from tfzoo.commands.output import complain, near, say
from tfzoo.commands.progress import Bar
from tfzoo.errors import TfzooError
from tfzoo.models.shard import fill
from tfzoo.runs import checkpoints, summary
from tfzoo.runs.finish import Finish
from tfzoo.runs.folder import rank
from tfzoo.runs.meter import Meter
from tfzoo.runs.metrics import MetricsFile
from tfzoo.runs.resume import Resume
from tfzoo.runs.signals import INTERRUPTED, STOPPED, Signals


class Training:
    """A job in its folder: the Trainer with our callbacks, how it ended, and what is to be said of it.

    With ``found``, a checkpoint of the same folder, it goes on from there.
    """

    def __init__(self, job: Job, folder: Path, task: Any, data: Any, args: list[str], found: Path | None = None) -> None:
        self.job, self.folder, self.task, self.data, self.args, self.found = job, folder, task, data, args, found
        self.ended = "not started"
        self.tested: dict[str, float] = {}
        self.parameters = sum(parameter.numel() for parameter in task.parameters())
        settings = dict(job.recipe["checkpoint"])
        interval = job.values.checkpoint.train_time_interval
        self.finish = Finish(
            folder / checkpoints.FOLDER,
            settings.pop("every_n_train_steps", None),
            interval if isinstance(settings.pop("train_time_interval", None) and interval, timedelta) else None,
        )
        self.signals, self.meter, file = Signals(self.finish), Meter(), MetricsFile(folder)
        self.resume = Resume(self.finish, file)
        self.best = keeper({"monitor": task.monitor, **settings}, folder / checkpoints.FOLDER)
        callbacks = [Bar(), self.meter, self.signals, self.resume, self.best, self.finish]
        self.trainer = trainer.make(job.parser, job.values, folder, callbacks, [file])

    def run(self) -> int:
        """Train and, on built-in data, test; write the summary. Returns the exit code."""
        code = self._fit()
        code = code if self._record("fit", self.facts()) else code or 1
        if code == 0 and self.job.recipe["data"].get("dataset") and not getattr(self.trainer, "fast_dev_run", False):
            self._test()
        return code

    def _record(self, command: str, section: dict[str, Any]) -> bool:
        """Write a section of the summary; whether the disk took it."""
        try:
            summary.write(self.folder, command, section) if not rank() else None
        except OSError as error:
            complain(f"cannot write {self.folder / summary.FILE}: {error.strerror}")
            return False
        return True

    def _fit(self) -> int:
        for logger in self.trainer.loggers:
            logger.log_hyperparams({**self.job.recipe, "versions": summary.versions()})
        try:
            self.trainer.fit(self.task, datamodule=self.data, ckpt_path=self.found, weights_only=True)
        except (SystemExit, KeyboardInterrupt) as stop:
            stopped = isinstance(stop, SystemExit) and stop.code == STOPPED
            self.ended = "interrupted" if stopped else "interrupted at once"
            say(f"tfzoo: stopped by a signal after step {self.trainer.global_step}")
            return STOPPED if stopped else INTERRUPTED
        except TfzooError as error:
            self.ended = f"failed: {error}"
            complain(error)
            return 2
        except Exception as error:
            self.ended = f"failed: {type(error).__name__}: {error}"
            traceback.print_exc()
            complain(f"training failed after step {self.trainer.global_step}: {type(error).__name__}: {error}")
            return 1
        self.ended = "interrupted" if self.signals.code else "completed"
        if self.finish.failed:
            self.ended = f"failed: could not write {', '.join(f'{name} ({why})' for name, why in self.finish.failed.items())}"
            complain(f"training ended after step {self.trainer.global_step}, but {self.ended.removeprefix('failed: ')}")
        return self.signals.code or int(bool(self.finish.failed))

    def _test(self) -> None:
        path = self.checkpoint
        if path is None:
            return
        fill(self.task, checkpoints.read(path)["state_dict"])
        self.trainer.test(self.task, datamodule=self.data, verbose=False)
        self.tested = scores(self.trainer, "test/")
        if not rank():
            self.task.draw(self.folder)
            section = {"scores": self.tested, "checkpoint": str(path), "ended": "completed"}
            self._record("test", {**section, **summary.surroundings(["fit", *self.args])})

    @property
    def checkpoint(self) -> Path | None:
        """The best, or the last where nothing was validated."""
        for path in (self.best.best_model_path, self.finish.folder / checkpoints.LAST):
            if path and Path(path).exists():
                return Path(path)
        return None

    def facts(self) -> dict[str, Any]:
        """The section of ``summary.json``."""
        return {
            "ended": self.ended,
            "scores": self.resume.scores,
            "best": {str(self.best.monitor): float(self.best.best_model_score)} if self.best.best_model_score is not None else {},
            **self.meter.counts(),
            "parameters": self.parameters,
            "checkpoint": str(self.checkpoint) if self.checkpoint else None,
            **summary.surroundings(["fit", *self.args]),
        }

    def rows(self) -> list[tuple[str, str]]:
        """The table at the end."""
        facts = self.facts()
        rows = [("steps", f"{facts['steps']:,}"), ("time", f"{timedelta(seconds=round(facts['seconds']))}")]
        if "tokens_per_second" in facts:
            rows.append(("tokens per second", f"{facts['tokens_per_second']:,}"))
        rows += [(f"best {name}", f"{value:.4g}") for name, value in facts["best"].items()]
        rows += [(name, f"{value:.4g}") for name, value in sorted(self.tested.items())]
        folder = near(self.folder)
        if self.checkpoint:
            rows += [("checkpoint", near(self.checkpoint))]
            rows += [(self.task.command, f'echo "{self._example()}" | tfzoo {self.task.command} {folder}')]
        return rows

    def _example(self) -> str:
        texts = self.data.val_dataloader().dataset[range(1)].source_text  # of a batch of one
        return next((text for text in texts if text.strip() and not set(text) & set('"$`\\!')), "text")


def keeper(settings: dict[str, Any], folder: Path) -> ModelCheckpoint:
    """Keeps the best by ``checkpoint.monitor``, decided at each validation."""
    chosen = {"mode": "max", "save_on_train_epoch_end": False, **settings, "save_last": None}
    if chosen.get("save_top_k", 1) == 1 and not chosen.get("filename"):
        chosen |= {"filename": "best", "enable_version_counter": False}
    return ModelCheckpoint(dirpath=folder, **chosen)


def scores(used: L.Trainer, prefix: str) -> dict[str, float]:
    """What was logged of one split, as numbers."""
    return {key: float(value) for key, value in used.callback_metrics.items() if key.startswith(prefix)}
