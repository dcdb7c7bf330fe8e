"""Run one training: callbacks, Trainer, errors and signals, test scores, summary."""

from __future__ import annotations

import re
import sys
import traceback
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException

from tfzoo.base.ranks import rank
from tfzoo.base.terminal import notify, print_error
from tfzoo.config.resolve import Config
from tfzoo.errors import TfzooError, did_you_mean, listing
from tfzoo.learning.explain import Explain
from tfzoo.models.fsdp import load_full_state
from tfzoo.runs import checkpoints, summary
from tfzoo.training import tracking
from tfzoo.training.checks import Checks
from tfzoo.training.last_checkpoint import LastCheckpoint
from tfzoo.training.make_trainer import best_checkpoint, make_trainer
from tfzoo.training.metrics_file import MetricsFile
from tfzoo.training.out_of_memory import OutOfMemoryContext, advice, is_out_of_memory
from tfzoo.training.pictures import draw_curves
from tfzoo.training.progress import Bar
from tfzoo.training.resume import Resume
from tfzoo.training.signals import INTERRUPTED, STOPPED, Signals, requeue
from tfzoo.training.throughput import Throughput
from tfzoo.training.watchdog import Watchdog

UNKNOWN_METRIC = re.compile(r"conditioned on metric `([^`]+)`|monitor='([^']+)'")
"""In the errors with which Lightning's callbacks end a training that does not log what they
monitor. All but ``EarlyStopping`` raise ``MisconfigurationException``, its word for bad input.
"""
AT_ONCE = "interrupted at once"
"""How a training ended that a second Ctrl-C stopped."""


class TrainingRun:
    """One training in its folder: the Trainer with tfzoo's callbacks, and the results.

    Args:
        config: the resolved configuration.
        folder: the run's folder.
        environment: what ``summary.json`` records of :func:`tfzoo.runs.summary.environment`.
        resume_from: the checkpoint to resume from, or None to start from step 0.

    Raises:
        BadRecipe: Lightning rejects the sections ``trainer`` or ``checkpoint``.
    """

    task: Any
    data: Any
    parameters: int

    def __init__(
        self,
        config: Config,
        folder: Path,
        environment: dict[str, Any],
        resume_from: Path | None = None,
    ) -> None:
        self.folder, self.environment, self.resume_from = folder, environment, resume_from
        self.ended = "not started"
        self.test_scores: dict[str, float] = {}
        self.earlier = summary.attempts(folder) if resume_from else []
        before = summary.read(folder).get("fit", {}) if resume_from else {}
        self.earlier_decoding_speed = before.get("decoded_per_second")
        settings = config.recipe["checkpoint"]
        interval = config.lightning.values.checkpoint.train_time_interval
        has_interval = settings.get("train_time_interval") and isinstance(interval, timedelta)
        metrics = MetricsFile(folder)
        self.throughput = Throughput()
        self.last = LastCheckpoint(
            folder / checkpoints.FOLDER,
            settings.get("every_n_train_steps"),
            interval if has_interval else None,
            partial(self.throughput.has_trained, config.recipe.get("train_tokens")),
        )
        self.signals = Signals(self.last)
        self.resume = Resume(self.last, metrics)
        self.best = best_checkpoint(settings, config.task.monitor, folder / checkpoints.FOLDER)
        self.memory_context = OutOfMemoryContext()
        self.watchdog = Watchdog(config.recipe["timeout"], self._on_timeout)
        callbacks = [
            *([Explain()] if config.recipe["explain"] else []),
            Checks(),
            Bar(),
            self.throughput,
            self.memory_context,
            self.watchdog,
            self.signals,
            self.resume,
            self.best,
            self.last,
        ]
        self.trainer = make_trainer(config.lightning, folder, callbacks, [metrics])

    def run(self, task: Any, data: Any) -> int:
        """Train the task on prepared data, test it on built-in data, and write the summary. Returns
        the exit code.
        """
        self.task, self.data = task, data
        self.parameters = sum(parameter.numel() for parameter in task.parameters())
        notify(f"model: {self.parameters:,} parameters")
        started = {"ended": "running", "attempts": self.attempts("running")}
        self._write_summary("fit", {**started, **self.environment})
        tracking.start(self.trainer.loggers)
        try:
            code = self._fit()
            if not self._write_summary("fit", self.fit_section()):
                return code or 1
            is_built_in = task.recipe["data"].get("dataset")
            if code == 0 and is_built_in and not getattr(self.trainer, "fast_dev_run", False):
                self._test()
            in_a_hurry = code == STOPPED or self.ended == AT_ONCE
            if not in_a_hurry and not rank():
                draw_curves(self.folder, self.trainer.loggers, self.trainer.global_step)
            return code
        finally:
            tracking.finish(self.trainer.loggers)

    def _write_summary(self, command: str, section: dict[str, Any]) -> bool:
        """Write a section of the summary. Returns False, after printing the error, if it fails."""
        try:
            if not rank():
                summary.write(self.folder, command, section)
        except OSError as error:
            print_error(f"cannot write {self.folder / summary.FILE}: {error.strerror}")
            return False
        return True

    def _fit(self) -> int:
        if not self.resume_from and not rank():
            # left by an attempt that was killed before its first checkpoint
            self.resume.file.path.unlink(missing_ok=True)
        for logger in self.trainer.loggers[1:]:  # the first is metrics.csv, which keeps none
            logger.log_hyperparams({**self.task.recipe, "versions": summary.versions()})
        self.watchdog.start(self.trainer)
        try:
            self.trainer.fit(
                self.task, datamodule=self.data, ckpt_path=self.resume_from, weights_only=True
            )
        except (SystemExit, KeyboardInterrupt) as stop:
            return self._on_interrupt(stop)
        except TfzooError as error:
            self.ended = f"failed: {error}"
            print_error(error)
            return error.code
        except Exception as error:
            return self._on_error(error)
        finally:
            self.watchdog.stop()
        tracking.send_best(self.trainer.loggers, self.best)
        self.ended = "interrupted" if self.signals.code else "completed"
        if self.last.failed:
            failed = ", ".join(f"{name} ({why})" for name, why in self.last.failed.items())
            self.ended = f"failed: could not write {failed}"
            step = self.trainer.global_step
            print_error(f"training ended after step {step}, but could not write {failed}")
        return self.signals.code or int(bool(self.last.failed))

    def _on_interrupt(self, stop: BaseException) -> int:
        """Return the exit code after a signal or Ctrl-C; requeue the job if the scheduler asks."""
        after_checkpoint = isinstance(stop, SystemExit) and stop.code == STOPPED
        self.ended = "interrupted" if after_checkpoint else AT_ONCE
        why = "paused" if self.signals.pause else "stopped by a signal"
        notify(f"tfzoo: {why} after step {self.trainer.global_step}")
        if not after_checkpoint:
            return INTERRUPTED
        if self.signals.asks_again and not rank() and (message := requeue()):
            notify(f"tfzoo: {message}")
        return STOPPED

    def _on_error(self, error: Exception) -> int:
        if is_out_of_memory(error):
            message = advice(self.memory_context.shape, self.data.max_tokens)
        elif cause := self.watchdog.cause(error):
            message = cause
        elif unknown := UNKNOWN_METRIC.search(str(error)):
            logged = [str(name) for name in self.trainer.callback_metrics]
            name = unknown[1] or unknown[2]
            message = f"a callback monitors {name!r}, which is not logged."
            message += f"{did_you_mean(name, logged)} Logged: {listing(logged, 30)}"
        elif isinstance(error, MisconfigurationException):
            message = " ".join(str(error).split())
        else:
            message = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        self.ended = f"failed: {message}"
        print_error(f"training failed after step {self.trainer.global_step}: {message}")
        return 1

    def _on_timeout(self, message: str) -> None:
        """Record and print that another process is lost. The watchdog calls this from its thread
        and then ends this process, whose training waits for the lost one.
        """
        self.ended = f"failed: {message}"
        message = f"training failed after step {self.trainer.global_step}: {message}"
        with suppress(Exception):
            if not rank():
                summary.write(self.folder, "fit", self.fit_section())
        if self.trainer.global_rank == 1 and "rank 0" in message:  # rank 0 cannot print any more
            print(f"tfzoo: {message}", file=sys.stderr, flush=True)
        print_error(message)

    def _test(self) -> None:
        """Score the best checkpoint on the test sets."""
        path = self.checkpoint
        if path is None:
            return
        load_full_state(self.task, checkpoints.read(path)["state_dict"])
        self.trainer.test(self.task, datamodule=self.data, verbose=False)
        metrics = self.trainer.callback_metrics.items()
        self.test_scores = {name: float(x) for name, x in metrics if name.startswith("test/")}
        if not rank():
            self.task.save_figures(self.folder)
            section = {"scores": self.test_scores, "checkpoint": str(path), "ended": "completed"}
            self._write_summary("test", {**section, **self.environment})

    @property
    def checkpoint(self) -> Path | None:
        """The best checkpoint, or the last one if there was no validation."""
        for path in (self.best.best_model_path, self.last.folder / checkpoints.LAST):
            if path and Path(path).exists():
                return Path(path)
        return None

    def attempts(self, ended: str) -> list[dict[str, Any]]:
        """Return all attempts of this run: the step at which each started and how it ended."""
        return [*self.earlier, {"from": self.resume.start, "ended": ended}]

    def fit_section(self) -> dict[str, Any]:
        """The section ``fit`` of ``summary.json``. If nothing was decoded in this attempt, the
        decoding speed of the earlier attempts is kept.
        """
        speed = self.task.throughput.per_second
        best = self.best.best_model_score
        return {
            "ended": self.ended,
            "attempts": self.attempts(self.ended),
            "scores": self.resume.scores,
            "untrained_loss": self.task.untrained_loss,
            "best": {str(self.best.monitor): float(best)} if best is not None else {},
            **self.throughput.counts(),
            "decoded_per_second": round(speed, 1) if speed else self.earlier_decoding_speed,
            "skipped": self.task.skipped,
            "parameters": self.parameters,
            "checkpoint": str(self.checkpoint) if self.checkpoint else None,
            **self.environment,
        }
