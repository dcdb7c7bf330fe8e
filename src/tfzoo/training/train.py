"""A training, read from top to bottom: its folder, data and task, the Trainer and its callbacks,
the first step, how it ended, test scores, the summary, and the table that is printed; and a dry
run, which is the beginning of one.

What is difficult stands beside it: ``resume`` (save and stop between two steps, and go on exactly),
``processes`` (several of them).
"""

import os
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import lightning.pytorch as L
import torch
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Checkpoint, Timer

from tfzoo.base import adapters
from tfzoo.base.memory import RAN_OUT
from tfzoo.base.processes import ARRIVALS, INTERRUPTED, STOPPED, rank
from tfzoo.base.scores import format_score, format_scores, logged_scores
from tfzoo.base.terminal import notify, print_refusal, print_result, print_table, relative_path
from tfzoo.base.values import convert
from tfzoo.config.config import Config
from tfzoo.data.module import TextData
from tfzoo.errors import BadRun, NoNextToken, NotFinite, TfzooError
from tfzoo.learning.explain import Explain
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.models.fsdp import load_full_state
from tfzoo.plots.curves import FILE as CURVES
from tfzoo.plots.curves import draw_curves
from tfzoo.runs import checkpoints
from tfzoo.runs.folder import (
    CONFIG,
    attempts,
    check_config,
    is_complete,
    opened,
    read_summary,
    write_config,
    write_summary,
)
from tfzoo.runs.machine import environment, versions
from tfzoo.training.cost import check_fits, cost_of
from tfzoo.training.processes import Processes
from tfzoo.training.progress import MetricsFile, Throughput, progress_bar
from tfzoo.training.resume import LastCheckpoint, Resume
from tfzoo.training.start import load, trained
from tfzoo.training.trainer import best_checkpoint, launched, make_trainer

REFUSED = ("conditioned on metric", "`val_check_interval`")
"""In errors with which Lightning refuses bad input otherwise than by ``MisconfigurationException``:
``EarlyStopping`` where nobody logs what it monitors, and fewer validations than epochs.
"""
ENVIRONMENT = {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE", "RANK"}
"""The variables that Lightning sets for the processes that it starts."""
AT_ONCE = "interrupted at once"
"""How a training ended that a second Ctrl-C stopped."""
WARMUP = 3
"""Batches of a dry run that are not timed: memory is allocated and kernels are loaded."""
MIN_BATCHES, MAX_BATCHES, MAX_SECONDS = 2, 50, 4.0
"""How many batches are timed, the fewest once so many seconds are over."""


def train(config: Config, run: str | None, command: list[str]) -> int:
    """Train, validate and test; returns the exit code.

    If the folder ``run`` holds a checkpoint of this configuration, training goes on from it.
    Otherwise it starts, in a new folder if none is named, and with the weights of ``config.start``
    if there are any. ``command`` are the arguments of ``tfzoo``.
    """
    with opened(config.name, run) as folder:
        resume_from, passed_over = checkpoints.newest(folder)
        for line in passed_over:
            notify(f"passed over: {line}")
        # without a checkpoint only rank 0 may read config.yaml, because it also writes it
        goes_on = resume_from or (not rank() and (folder / CONFIG).is_file())
        changed = check_config(folder, config.recipe, config.defaults) if goes_on else []
        steps = read_summary(folder).get("fit", {}).get("steps", 0)
        most = config.recipe["trainer"].get("max_steps") or 0
        is_shorter = changed == ["trainer.max_steps"] and 0 < most <= steps
        if resume_from and (is_shorter or not changed) and is_complete(folder):
            print_result(
                f"{relative_path(folder)} is complete: {steps:,} steps. To train on, raise "
                f"--trainer.max_steps; to score it again: tfzoo score {relative_path(folder)}"
            )
            return 0
        training = TrainingRun(config, folder, command, resume_from)
        training.prepare()
        with launching(command):
            code = training.run()
        if code != BadRun.code:
            training.print_results(named=run is not None)
        return code


def ready(
    config: Config,
    folder: Path | None,
    callbacks: Sequence[L.Callback],
    loggers: Sequence[Any] = (),
) -> tuple[L.Trainer, Any, Any]:
    """The Trainer, the task with its new model, and its data, which is prepared.

    Raises:
        BadRecipe: Lightning rejects the sections ``trainer`` or ``checkpoint``, or the model does
            not fit this machine.
        BadData: the text, or a split has fewer examples than there are processes.
    """
    trainer = make_trainer(config.recipe["trainer"], folder, callbacks, loggers)
    check_fits(config, trainer)
    states = config.start.vocabularies(config.recipe["data"]) if config.start else ()
    data = config.make_data()
    data.tokenizer_states, data.trainer = states, trainer
    data.prepare_data()
    data.setup("fit")
    tokenizer = getattr(data, config.task.tokenizer_of_data)
    check_fits(config, trainer, tokenizer)
    task = config.task.build(config.recipe, tokenizer)
    task.check(data)
    return trainer, task, data


@contextmanager
def launching(command: Sequence[str]) -> Iterator[None]:
    """Context in which Lightning can start further processes of this command.

    Lightning starts them with ``sys.argv``, which is set to the command, also if it was called from
    Python. Afterwards the process group and the environment variables that Lightning has set are
    removed, so that the next command in this process starts with one process.
    """
    main = sys.modules["__main__"]
    before, variables = (sys.argv, main.__spec__), dict(os.environ)
    grouped = torch.distributed.is_initialized()
    sys.argv, main.__spec__ = ["tfzoo", *command], find_spec("tfzoo.__main__")
    try:
        yield
        if torch.distributed.is_initialized() and not grouped:
            torch.distributed.destroy_process_group()
    finally:
        sys.argv, main.__spec__ = before
        for name in ENVIRONMENT & (os.environ.keys() - variables.keys()):
            del os.environ[name]


class TrainingRun:
    """One training in its folder: the Trainer with tfzoo's callbacks, and the results.
    ``resume_from`` is the checkpoint that it goes on from; errors are those of :func:`ready`.
    """

    parameters: int

    def __init__(
        self, config: Config, folder: Path, command: list[str], resume_from: Path | None
    ) -> None:
        self.config, self.folder, self.command = config, folder, command
        self.resume_from = resume_from
        self.ended = "not started"
        self.test_scores: dict[str, float] = {}
        self.earlier = attempts(folder) if resume_from else []
        settings, place = config.recipe["checkpoint"], folder / checkpoints.FOLDER
        metrics = MetricsFile(folder)
        self.throughput = Throughput()
        self.resume = Resume(metrics, self.record)
        self.processes = Processes(config.recipe["timeout"])
        self.best = best_checkpoint(settings, config.task.monitor, place)
        self.last = LastCheckpoint(
            place,
            settings.get("every_n_train_steps"),
            convert(settings.get("train_time_interval"), timedelta | None),
            partial(self.throughput.has_trained, config.recipe.get("train_tokens")),
            self.processes,
        )
        callbacks = [
            *([Explain()] if config.recipe["explain"] else []),
            progress_bar(),
            self.throughput,
            self.resume,
            self.processes,
            self.best,
            self.last,
        ]
        self.trainer, self.task, self.data = ready(config, folder, callbacks, [metrics])
        if self.trainer.world_size > 1:
            adapters.set_timeout(self.trainer.strategy, self.processes.timeout)

    def prepare(self) -> None:
        """Give the task the weights that training begins with, and say what it is."""
        start = self.config.start
        weights = load(start.run, self.task) if start and not self.resume_from else []
        if start:
            start.run.forget()
        if self.resume_from and self.task.adapter.name:
            self.task.anew = TrainedRun(self.resume_from).entry.get("anew", [])
        self.task.choose_trained()
        if not self.resume_from and not rank():
            write_config(self.folder, self.config.recipe)
        notify(f"run: {relative_path(self.folder)}")
        if self.resume_from:
            notify(f"goes on from {relative_path(self.resume_from)}")
        if start and weights:
            rows = [*weights, *trained(self.task)]
            print_table(rows, f"weights of {relative_path(start.run.path)}")
        notify(self.data.describe())
        every = [*self.task.parameters()]
        self.parameters = sum(one.numel() for one in every)
        frozen = sum(one.numel() for one in every if not one.requires_grad)
        of_them = f", {self.parameters - frozen:,} of them trained" if frozen else ""
        notify(f"model: {self.parameters:,} parameters{of_them}")

    def run(self) -> int:
        """Train the task, score it on the test sets, write the summary; return the exit code. A
        resume that ends before its first step leaves no record.
        """
        code = self._fit()
        ARRIVALS.held = False
        if code and self.resume_from and not self.resume.begun:
            return code
        self._write("fit", self.fit_section())
        code = code or ARRIVALS.code
        is_tested = self.test_sets and not getattr(self.trainer, "fast_dev_run", False)
        if code == 0 and is_tested:
            code = self._test()
        in_a_hurry = code == STOPPED or self.ended == AT_ONCE
        if not in_a_hurry and not rank():
            draw_curves(self.folder, self.trainer.loggers, self.trainer.global_step)
        return code

    @property
    def test_sets(self) -> list[str]:
        """The names of the test sets of the data."""
        return getattr(self.data, "test_names", [])

    def record(self) -> None:
        """Say in the folder that this attempt trains. Not before: the processes of a resume read
        there whether the run is complete, and a resume that is refused leaves all as it was.
        """
        self._write("fit", {"ended": "running", "attempts": self.attempts("running")})

    def _write(self, command: str, section: dict[str, Any]) -> None:
        """Write the configuration, and a section of the summary."""
        if not rank():
            write_config(self.folder, self.config.recipe)
            write_summary(self.folder, command, {**section, **environment(self.command)})

    def _fit(self) -> int:
        if not self.resume_from and not rank():
            # left by an attempt that was killed before its first checkpoint
            self.resume.file.path.unlink(missing_ok=True)
        try:
            for logger in self.trainer.loggers[1:]:  # the first is metrics.csv, which keeps none
                logger.log_hyperparams({**self.task.recipe, "versions": versions()})
            if self.config.start and not self.resume_from and self.trainer.limit_val_batches:
                self.trainer.validate(self.task, datamodule=self.data, verbose=False)  # step 0
            self.trainer.fit(
                self.task, datamodule=self.data, ckpt_path=self.resume_from, weights_only=True
            )
        except (SystemExit, KeyboardInterrupt) as stop:
            return self._on_interrupt(stop)
        except TfzooError as error:
            self.ended = (
                f"{'diverged' if isinstance(error, NotFinite | NoNextToken) else 'failed'}: {error}"
            )
            print_refusal(error)
            return error.code
        except Exception as error:
            return self._on_error(error)
        code = self.asked_to_end()
        self.ended = "interrupted" if code else "completed"
        return code

    def asked_to_end(self) -> int:
        """The exit code for a signal to any process, which may have come after the last step."""
        return self.processes.maximum(max(self.last.code, ARRIVALS.code))

    def _on_interrupt(self, stop: BaseException) -> int:
        """The exit code after a signal or Ctrl-C; the job is requeued if the scheduler asks."""
        after_checkpoint = isinstance(stop, SystemExit) and stop.code == STOPPED
        self.ended = "interrupted" if after_checkpoint else AT_ONCE
        notify(f"tfzoo: stopped by a signal after step {self.trainer.global_step}")
        if not after_checkpoint:
            return INTERRUPTED
        if ARRIVALS.requeues and not rank() and (message := requeue()):
            notify(f"tfzoo: {message}")
        return STOPPED

    def _on_error(self, error: Exception) -> int:
        code, words = 1, " ".join(str(error).split())
        if is_out_of_memory(error):
            most = self.data.max_tokens
            message = f"out of memory. Lower data.max_tokens, which is {most}: "
            message += f"--data.max_tokens {max(1, most // 2)}"
        elif cause := self.processes.cause(error, self.trainer):
            message = cause
        elif isinstance(error, MisconfigurationException | OSError) or any(
            one in words for one in REFUSED
        ):
            message = words
        elif self.resume_from and not self.resume.begun:
            message = f"{relative_path(self.resume_from)} does not fit, or is damaged: "
            message += f"{type(error).__name__}: {words[:200]}"
            code = BadRun.code
        else:
            message = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        self.ended = f"failed: {message}"
        print_refusal(f"training failed after step {self.trainer.global_step}: {message}")
        return code

    def _test(self) -> int:
        """Score the best checkpoint; a signal leaves the test to the next attempt."""
        path = self.checkpoint
        if path is None:
            return 0
        load_full_state(self.task, checkpoints.read(path)["state_dict"])
        try:
            self.trainer.test(self.task, datamodule=self.data, verbose=False)
        except (SystemExit, KeyboardInterrupt) as stop:
            if (launcher := self.trainer.strategy.launcher) is not None:
                launcher.kill(signal.SIGTERM)  # the processes that Lightning has started
            return self._on_interrupt(stop)
        scores = logged_scores(self.trainer).items()
        self.test_scores = {name: score for name, score in scores if name.startswith("test/")}
        if not rank():
            self.task.save_figures(self.folder)
        scored = {"scores": self.test_scores, "checkpoint": str(path), "ended": "completed"}
        self._write("test", scored)
        return 0

    @property
    def checkpoint(self) -> Path | None:
        """The best checkpoint, or the last one if there was no validation."""
        for path in (self.best.best_model_path, self.last.folder / checkpoints.LAST):
            if path and Path(path).exists():
                return Path(path)
        return None

    def attempts(self, ended: str) -> list[dict[str, Any]]:
        """The step at which each attempt of this run started, and how it ended."""
        return [*self.earlier, {"from": self.resume.start, "ended": ended}]

    def fit_section(self) -> dict[str, Any]:
        """The section ``fit`` of ``summary.json``."""
        best = self.best.best_model_score
        return {
            "ended": self.ended,
            "attempts": self.attempts(self.ended),
            "test_sets": self.test_sets,
            "scores": self.resume.scores,
            "untrained": self.task.untrained_scores,
            "constant_loss": self.task.constant_loss(self.data)
            if "val" in getattr(self.data, "sets", {})
            else None,
            "best": {str(self.best.monitor): float(best)} if best is not None else {},
            "steps": self.trainer.global_step,
            "out_of_time": seconds_left(self.trainer) <= 0,
            **self.throughput.counts(),
            "skipped": self.task.skipped,
            "parameters": self.parameters,
            "checkpoint": str(self.checkpoint) if self.checkpoint else None,
        }

    def print_results(self, named: bool) -> None:
        """Print a table of the results and the commands to go on with. ``named``: the command has
        the run's folder.
        """
        title = f"{self.config.recipe['task']} {self.config.name}: {self.ended}"
        print_table(self._table(), title)
        folder = relative_path(self.folder)
        if self.checkpoint:
            print_result(f"to predict:\n  tfzoo predict {shlex.quote(folder)} FILE")
        command = launched([*self.command, *([] if named else ["--run", folder])])
        if command and (self.last.folder / checkpoints.LAST).exists():
            longer = ", with a higher limit" * (self.ended == "completed")
            print_result(f"to go on{longer}:\n  {shlex.join(command)}")

    def _table(self) -> list[tuple[str, str]]:
        section = self.fit_section()
        rows = [
            ("steps", f"{section['steps']:,}"),
            ("time", f"{timedelta(seconds=round(section['seconds']))}"),
        ]
        if section["out_of_time"]:
            rows.append(("cut by", "trainer.max_time, before another limit was reached"))
        if section["skipped"]:
            rows.append(("skipped, not finite", f"{section['skipped']:,}"))
        if "tokens_per_second" in section:
            rows.append(("tokens per second", f"{section['tokens_per_second']:,}"))
        best = [
            (f"best {name}", format_score(name, value)) for name, value in section["best"].items()
        ]
        rows += best or format_scores(section["scores"])
        if not section["scores"]:
            rows.append(("validation", "none took place"))
        rows += format_scores(self.test_scores)
        if (self.folder / CURVES).exists():
            rows.append(("curves", relative_path(self.folder / CURVES)))
        if self.checkpoint and not rank():
            # mapped: nothing else of it is read
            state = torch.load(self.checkpoint, "cpu", weights_only=True, mmap=True)
            path, step = relative_path(self.checkpoint), state["global_step"]
            rows.append(("checkpoint", f"{path}, of step {step:,}"))
        return rows


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error or one of its causes says that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, RuntimeError | OSError) and any(words in str(error) for words in RAN_OUT):
        return True
    return error.__cause__ is not None and is_out_of_memory(error.__cause__)


def requeue() -> str:
    """Ask SLURM to requeue this job, which is about to reach its time limit, and say what came of
    it; ``""`` where this is no job of srun.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job or not SLURMEnvironment.detect():
        return ""
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    command = ["scontrol", "requeue", job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"job {job} could not be requeued: {done.stderr.strip()[:200]}"
    return f"job {job} is requeued"


def seconds_left(trainer: L.Trainer) -> float:
    """The seconds after which a limit of time ends a training; infinite if there is none."""
    callbacks: list[L.Callback] = trainer.callbacks  # type: ignore[attr-defined]  # a Trainer has them
    left = [one.time_remaining() for one in callbacks if isinstance(one, Timer)]
    return min((seconds for seconds in left if seconds is not None), default=inf)


# A dry run ----------------------------------------------------------------------------------------


class Stopwatch(Checkpoint):
    """Times batches, and ends the training when it has timed enough of them. Being a
    ``Checkpoint``, it keeps Lightning from adding one that writes files.
    """

    def __init__(self) -> None:
        self.ends: list[float] = []
        """When training began, and when each batch was over."""
        self.limit = inf

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.ends = [perf_counter()]
        self.steps = float(trainer.estimated_stepping_batches)
        self.limit = seconds_left(trainer)

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(perf_counter())
        timed, seconds = len(self.ends) - 1 - WARMUP, self.ends[-1] - self.ends[0]
        over = timed >= (MIN_BATCHES if seconds > MAX_SECONDS else MAX_BATCHES)
        if trainer.strategy.reduce_boolean_decision(over, all=False):
            trainer.fit_loop.epoch_loop.max_steps = trainer.global_step

    def seconds(self) -> float:
        """Of a batch."""
        first = min(WARMUP, len(self.ends) - 2)
        return (self.ends[-1] - self.ends[first]) / (len(self.ends) - 1 - first)


def dry_run(config: Config, command: list[str]) -> int:
    """Prepare the data, train a few steps, and print what the whole training will take. Nothing is
    written except to the cache.
    """
    alone = {"callbacks": [], "limit_val_batches": 0, "enable_progress_bar": False}
    stopwatch = Stopwatch()
    config.recipe["trainer"] |= alone
    trainer, task, data = ready(config, None, [stopwatch])
    notify(data.describe())
    cost = None
    if isinstance(data, TextData) and data.stream is None:
        train = data.sets["train"]
        length = max(int(side.max()) + 1 for side in train.lengths())  # with EOS
        texts = max(1, min(len(train), data.max_tokens // length))
        sizes = config.task.model_arguments(task.tokenizer)
        cost = cost_of(config, sizes, trainer, texts, length)
    with launching(command):
        trainer.fit(task, datamodule=data)
    step = stopwatch.seconds() * trainer.accumulate_grad_batches
    time, steps = f"{step:.3g} s a step; validation comes on top", stopwatch.steps
    if (seconds := min(steps * step, stopwatch.limit)) < inf:
        time = f"about {timedelta(seconds=round(seconds))}: {time}"
    rows = [
        ("parameters", f"{sum(parameter.numel() for parameter in task.parameters()):,}"),
        ("batches", f"{trainer.num_training_batches:,} an epoch"),
        ("steps", "until it is stopped" if steps == inf else f"{steps:,.0f}"),
        ("time", time),
    ]
    if cost:
        rows.append(("memory of a step", f"about {cost}"))
    print_table(rows, f"{config.recipe['task']} {config.name}: dry run")
    return 0
