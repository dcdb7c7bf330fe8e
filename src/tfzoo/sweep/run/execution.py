"""One run of a sweep, trained to its end by the process that calls this."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tfzoo.errors import BadRun
from tfzoo.runs import checkpoints
from tfzoo.runs.files import remove_leftovers
from tfzoo.runs.folder import CONFIG, read_summary, write_config
from tfzoo.runs.lock import LOCK, LOCK_OWNER, PASSED, Held, holding
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run.outcome import is_tested, record_failure
from tfzoo.sweep.run.state import STOPPED, Run
from tfzoo.training.out_of_memory import WORDS

OUTPUT = "output.txt"
"""What ``fit`` printed, in the run's folder."""


def command(run: Run, plan: Plan) -> tuple[str, ...]:
    """The module whose ``main`` trains a run, and its arguments."""
    if plan.module:
        own = (str(run.folder), plan.module, plan.data, *run.metrics)
        return ("tfzoo.sweep.run.train_module", *own)
    recipe, *options = plan.fit_arguments(run.cell, run.tuned)
    place = ("--run", str(run.folder), f"--seed={run.seed}")
    return ("tfzoo.commands.main", "fit", recipe, *place, *options)


def train(run: Run, words: Sequence[str]) -> int:
    """Train a run by its :func:`command`; returns the exit code. Afterwards the folder says what it
    came to. A run that is over, or that another process trains, is left alone.
    """
    try:
        with holding(run.folder) as passed:
            if run.outcome.is_over:
                return 0
            os.environ[PASSED] = passed
            prepare(run)
            code = call(words)
            if not code and is_tested(run.metrics) and "test" not in read_summary(run.folder):
                code = call(("tfzoo.commands.main", "score", str(run.folder)))
            if code not in (0, *STOPPED):
                fail(run, code)
            return code
    except Held:
        return 0


def prepare(run: Run) -> None:
    """Prepare the folder: clear a run that cannot be resumed, and write the configuration."""
    remove_leftovers(run.folder)
    try:
        checkpoints.newest(run.folder)
    except BadRun:
        clear(run.folder)
    if not (run.folder / CONFIG).is_file():
        write_config(run.folder, run.recipe)


def clear(path: Path) -> None:
    """Remove everything from a run's folder except its lock and what is being printed."""
    for inner in path.iterdir():
        if inner.name not in (LOCK, LOCK_OWNER, OUTPUT):
            shutil.rmtree(inner) if inner.is_dir() else inner.unlink()


def call(words: Sequence[str]) -> int:
    """Call the ``main`` of a module; returns the exit code."""
    module, *arguments = words
    try:
        code: int = import_module(module).main(arguments)
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def fail(run: Run, code: int) -> None:
    """Record why a run failed, unless its folder says so already."""
    if not run.outcome.is_over:
        record_failure(run.folder, last_words(run.folder, code))


def last_words(run_folder: Path, code: int) -> str:
    """Why a process ended with this exit code, by the last line that it printed."""
    if code == -9:
        return "killed by SIGKILL twice; if nobody killed it, the system was out of memory"
    output = run_folder / OUTPUT
    printed = output.read_text("utf-8", "replace") if output.is_file() else ""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    message = next((line for line in reversed(lines) if line.startswith("tfzoo: ")), "")
    message = message.removeprefix("tfzoo: ") or "".join(lines[-1:])
    if any(words in message for words in (*WORDS, "MemoryError")):
        message = f"out of memory: {message}"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}: {message}"
    return message or f"ended with exit code {code}"
