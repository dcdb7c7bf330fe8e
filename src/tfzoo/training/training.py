"""One training from its first step to its summary."""

from __future__ import annotations

import shlex
import sys
import traceback
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import ModelCheckpoint, Timer

from tfzoo.config.config import Config
from tfzoo.errors import TfzooError
from tfzoo.models.fsdp import load_full_state
from tfzoo.runs import checkpoints, summary
from tfzoo.runs.folder import rank
from tfzoo.runs.last_checkpoint import LastCheckpoint
from tfzoo.runs.metrics_file import MetricsFile
from tfzoo.runs.out_of_memory import OutOfMemoryContext, advice, is_out_of_memory
from tfzoo.runs.requeue import requeue
from tfzoo.runs.resume import Resume
from tfzoo.runs.signals import INTERRUPTED, STOPPED, Signals
from tfzoo.runs.throughput import Throughput
from tfzoo.runs.watchdog import Watchdog
from tfzoo.tasks.explain import Explain
from tfzoo.terminal import format_number, notify, print_error, relative_path
from tfzoo.training import tracking, trainer
from tfzoo.training.progress import Bar

LASTS = {"every_n_train_steps", "train_time_interval"}
"""Of the settings of checkpoints, those for the last one."""


class Training:
    """A config in its folder: the Trainer with our callbacks, how it ended, and what is to be said of
    it.

    With ``found``, a checkpoint of the same folder, it goes on from there.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        task: Any,
        data: Any,
        args: list[str],
        found: Path | None = None,
    ) -> None:
        self.config, self.folder, self.task, self.data, self.args, self.found = (
            config,
            folder,
            task,
            data,
            args,
            found,
        )
        self.ended = "not started"
        self.tested: dict[str, float] = {}
        self.earlier = earlier(folder) if found else []
        before = summary.read(folder).get("fit", {}) if found else {}
        self.decoded_before = before.get("decoded_per_second")
        self.parameters = sum(parameter.numel() for parameter in task.parameters())
        settings = config.recipe["checkpoint"]
        interval = config.lightning.values.checkpoint.train_time_interval
        self.meter, file = Throughput(), MetricsFile(folder)
        self.finish = LastCheckpoint(
            folder / checkpoints.FOLDER,
            settings.get("every_n_train_steps"),
            interval
            if isinstance(settings.get("train_time_interval") and interval, timedelta)
            else None,
            partial(self.meter.has_trained, config.recipe.get("train_tokens")),
        )
        self.signals = Signals(self.finish)
        self.resume = Resume(self.finish, file)
        self.best = keeper(config, folder / checkpoints.FOLDER)
        self.under_way = OutOfMemoryContext()
        self.watch = Watchdog(config.recipe["timeout"], self._give_up)
        explains = [Explain()] if config.recipe["explain"] else []
        callbacks = [
            *explains,
            Bar(),
            self.meter,
            self.under_way,
            self.watch,
            self.signals,
            self.resume,
            self.best,
            self.finish,
        ]
        self.trainer = trainer.make(config, folder, callbacks, [file])

    def run(self) -> int:
        """Train and, on built-in data, test; write the summary. Returns the exit code."""
        self._record(
            "fit",
            {
                "ended": "running",
                "attempts": self._attempts("running"),
                **summary.environment(["fit", *self.args]),
            },
        )
        tracking.begin(self.trainer.loggers)
        try:
            return self._run()
        finally:
            tracking.end(self.trainer.loggers)

    def _run(self) -> int:
        code = self._fit()
        code = code if self._record("fit", self.facts()) else code or 1
        if (
            code == 0
            and self.config.recipe["data"].get("dataset")
            and not getattr(self.trainer, "fast_dev_run", False)
        ):
            self._test()
        return code

    def _record(self, command: str, section: dict[str, Any]) -> bool:
        """Write a section of the summary; whether the disk took it."""
        try:
            summary.write(self.folder, command, section) if not rank() else None
        except OSError as error:
            print_error(f"cannot write {self.folder / summary.FILE}: {error.strerror}")
            return False
        return True

    def _fit(self) -> int:
        if (
            not self.found and not rank()
        ):  # rows of an attempt that was killed before its first checkpoint
            self.resume.file.path.unlink(missing_ok=True)
        for logger in self.trainer.loggers:
            logger.log_hyperparams({**self.config.recipe, "versions": summary.versions()})
        self.watch.start(self.trainer)
        try:
            self.trainer.fit(
                self.task, datamodule=self.data, ckpt_path=self.found, weights_only=True
            )
        except (SystemExit, KeyboardInterrupt) as stop:
            stopped = isinstance(stop, SystemExit) and stop.code == STOPPED
            self.ended = "interrupted" if stopped else "interrupted at once"
            notify(f"tfzoo: stopped by a signal after step {self.trainer.global_step}")
            if stopped and self.signals.asks_again and not rank() and (told := requeue()):
                notify(f"tfzoo: {told}")
            return STOPPED if stopped else INTERRUPTED
        except TfzooError as error:
            self.ended = f"failed: {error}"
            print_error(error)
            return error.code
        except Exception as error:
            return self._failed(error)
        finally:
            self.watch.stop()
        self.ended = "interrupted" if self.signals.code else "completed"
        if self.finish.failed:
            self.ended = f"failed: could not write {', '.join(f'{name} ({why})' for name, why in self.finish.failed.items())}"
            print_error(
                f"training ended after step {self.trainer.global_step}, but {self.ended.removeprefix('failed: ')}"
            )
        return self.signals.code or int(bool(self.finish.failed))

    def _failed(self, error: Exception) -> int:
        if is_out_of_memory(error):
            said = advice(self.under_way.shape, self.data.max_tokens)
        elif blamed := self.watch.cause(error):
            said = blamed
        else:
            said = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        self.ended = f"failed: {said}"
        print_error(f"training failed after step {self.trainer.global_step}: {said}")
        return 1

    def _give_up(self, said: str) -> None:
        """Say it and note it, from another thread: this process ends with it, for training waits
        for a process that is lost.
        """
        self.ended = f"failed: {said}"
        said = f"training failed after step {self.trainer.global_step}: {said}"
        with suppress(Exception):
            summary.write(self.folder, "fit", self.facts()) if not rank() else None
        if self.trainer.global_rank == 1 and "rank 0" in said:  # rank 0 cannot print any more
            print(f"tfzoo: {said}", file=sys.stderr, flush=True)
        print_error(said)

    def _test(self) -> None:
        path = self.checkpoint
        if path is None:
            return
        load_full_state(self.task, checkpoints.read(path)["state_dict"])
        self.trainer.test(self.task, datamodule=self.data, verbose=False)
        self.tested = scores(self.trainer, "test/")
        if not rank():
            self.task.save_figures(self.folder)
            section = {"scores": self.tested, "checkpoint": str(path), "ended": "completed"}
            self._record("test", {**section, **summary.environment(["fit", *self.args])})

    @property
    def checkpoint(self) -> Path | None:
        """The best, or the last where nothing was validated."""
        for path in (self.best.best_model_path, self.finish.folder / checkpoints.LAST):
            if path and Path(path).exists():
                return Path(path)
        return None

    def facts(self) -> dict[str, Any]:
        """The section of ``summary.json``. Where nothing was decoded, the run's earlier speed stays."""
        speed = self.task.throughput.per_second
        return {
            "ended": self.ended,
            "attempts": self._attempts(self.ended),
            "scores": self.resume.scores,
            "best": {str(self.best.monitor): float(self.best.best_model_score)}
            if self.best.best_model_score is not None
            else {},
            **self.meter.counts(),
            "decoded_per_second": round(speed, 1) if speed else self.decoded_before,
            "skipped": self.task.skipped,
            "parameters": self.parameters,
            "checkpoint": str(self.checkpoint) if self.checkpoint else None,
            **summary.environment(["fit", *self.args]),
        }

    def _attempts(self, ended: str) -> list[dict[str, Any]]:
        """All trainings of this run, each with the step that it went on from and how it ended."""
        return [*self.earlier, {"from": self.resume.start, "ended": ended}]

    def rows(self) -> list[tuple[str, str]]:
        """The table at the end."""
        facts = self.facts()
        rows = [
            ("steps", f"{facts['steps']:,}"),
            ("time", f"{timedelta(seconds=round(facts['seconds']))}"),
        ]
        if any(isinstance(one, Timer) and is_over(one) for one in self.trainer.callbacks):  # type: ignore[attr-defined]  # a Trainer has them
            rows.append(("cut by", "trainer.max_time, before another limit was reached"))
        if facts["skipped"]:
            rows.append(("skipped, not finite", f"{facts['skipped']:,}"))
        if "tokens_per_second" in facts:
            rows.append(("tokens per second", f"{facts['tokens_per_second']:,}"))
        rows += [(f"best {name}", f"{value:.4g}") for name, value in facts["best"].items()]
        rows += [(name, format_number(value)) for name, value in sorted(self.tested.items())]
        folder = relative_path(self.folder)
        if self.checkpoint:
            rows += [("checkpoint", relative_path(self.checkpoint))]
            rows += [
                (
                    self.task.command,
                    f'echo "{self._example()}" | tfzoo {self.task.command} {folder}',
                )
            ]
        if (self.finish.folder / checkpoints.LAST).exists():
            rows += [("go on", again(self.args, folder))]
        return rows

    def _example(self) -> str:
        texts = self.data.val_dataloader().dataset[range(1)].source_text  # of a batch of one
        return next(
            (text for text in texts if text.strip() and not set(text) & set('"$`\\!')), "text"
        )


def is_over(timer: Timer) -> bool:
    """Whether the time that a Trainer was given for training has been used up."""
    left = timer.time_remaining()
    return left is not None and left <= 0


def earlier(folder: Path) -> list[dict[str, Any]]:
    """The attempts that the summary of a run knows of; one that did not live to tell its end was
    killed.
    """
    attempts = summary.read(folder).get("fit", {}).get("attempts", [])
    return [
        {**one, "ended": "killed" if one.get("ended") == "running" else one.get("ended")}
        for one in attempts
        if isinstance(one, dict)
    ]


def again(args: list[str], folder: str) -> str:
    """The command that goes on with a run."""
    named = any(arg == "--run" or arg.startswith("--run=") for arg in args)
    return shlex.join(["tfzoo", "fit", *args, *([] if named else ["--run", folder])])


def refuse(config: Config, folder: Path) -> None:
    """Raise what Lightning refuses of a recipe, before data is read.

    Raises:
        BadRecipe: one line that says what.
    """
    keeper(config, folder)
    trainer.make(config, None, [])


def keeper(config: Config, folder: Path) -> ModelCheckpoint:
    """Keeps the best by ``checkpoint.monitor``, decided at each validation.

    Raises:
        BadRecipe: Lightning refuses the settings.
    """
    given = {key: value for key, value in config.recipe["checkpoint"].items() if key not in LASTS}
    chosen = {
        "monitor": config.task.monitor,
        "mode": "max",
        "save_on_train_epoch_end": False,
        **given,
        "save_last": None,
    }
    if chosen.get("save_top_k", 1) == 1 and not chosen.get("filename"):
        chosen |= {"filename": "best", "enable_version_counter": False}
    with trainer.refusals("checkpoint"):
        return ModelCheckpoint(dirpath=folder, **chosen)


def scores(used: L.Trainer, prefix: str) -> dict[str, float]:
    """What was logged of one split, as numbers."""
    return {
        key: float(value) for key, value in used.callback_metrics.items() if key.startswith(prefix)
    }
