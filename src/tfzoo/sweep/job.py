"""One run of a sweep as a scheduler's task: ``tfzoo sweep FILE --run FOLDER --cell I``, wherever
the scheduler starts it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tfzoo.errors import BadOption
from tfzoo.sweep import state, supervisor
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.state import Run, Status

PATIENCE = 60.0
"""Seconds that a run has for its last checkpoint."""
STOPPED = (75, 130)
"""Exit codes after a signal: a machine that goes down says good-bye to what runs on it."""
TRIES = 3
"""How often a run may end without a word, before that counts as its failure."""


@dataclass(frozen=True)
class Ended:
    """How a task ended: on which machine, with which exit code, and what it said last."""

    host: str
    code: int
    said: str


class Job:
    """A task that can be sent to another machine. When whoever runs it dies, so does the run;
    interrupted, it ends with a checkpoint.
    """

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.folder, self.words = folder, words
        self.child: subprocess.Popen[bytes] | None = None

    def __call__(self) -> Ended:
        host = socket.gethostname()
        if not (
            self.folder / state.SWEEP
        ).is_file():  # a machine that came later; elsewhere a new folder would be trained into
            return Ended(host, 2, f"{self.folder} is not to be seen there")
        with TemporaryFile() as output:
            self.child = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, sys.executable, *self.words],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                process_group=0,
            )
            try:
                while self.child.poll() is None:
                    time.sleep(0.1)  # no wait(): a handler of signals could not wait beside it
            except BaseException:
                self.stop()
                raise
            output.seek(max(0, output.seek(0, os.SEEK_END) - 4096))
            lines = output.read().decode("utf-8", "replace").split("\n")
        said = [line.strip().removeprefix("tfzoo: ") for line in lines if line.strip()]
        return Ended(host, self.child.returncode, said[-1] if said else "")

    def stop(self) -> None:
        """End the run with a checkpoint."""
        if self.child is None:
            return
        self.child.terminate()
        end = time.monotonic() + PATIENCE
        while self.child.poll() is None and time.monotonic() < end:
            time.sleep(0.1)

    def checkpoint(self) -> Any:
        """What submitit asks for when SLURM's time is over or another needs the machine: the same
        again.
        """
        self.stop()
        return library("slurm", "submitit").helpers.DelayedSubmission(Job(self.folder, self.words))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "child": None}


def work(job: Job) -> Ended:
    """A task of Ray. It stands here, as its machine imports what it stands in: this file imports no
    torch.
    """
    return job()


def read(path: Path) -> str:
    """What a machine finds in a file; ``""`` where it does not see it."""
    try:
        return path.read_text()
    except OSError:
        return ""


class RetryPolicy:
    """What becomes of runs whose tasks ended."""

    def __init__(self) -> None:
        self.silent: Counter[int] = Counter()

    def settle(self, run: Run, ended: Ended | None) -> Status | None:
        """The status that a run ended with, or None where it has to run again: its machine was lost
        (``ended`` is None) or is going down, another process still holds it, or it ended without a
        word and has not done so often.
        """
        found = state.status(run)
        if found in ("completed", "failed"):
            return found
        if ended is None or ended.code in STOPPED or found == "running":
            return None
        self.silent[run.number] += 1
        if self.silent[run.number] < TRIES:
            return None
        fail(
            run, f"on {ended.host}: {ended.said or 'no word'} (exit code {ended.code})", ended.code
        )
        return "failed"


def fail(run: Run, reason: str, code: int) -> None:
    """Record a failure that the run could not record itself."""
    run.folder.mkdir(parents=True, exist_ok=True)
    state.fail(run.folder, reason, code)


def words(folder: Path, run: Run) -> list[str]:
    """What Python runs a cell with: by the folder's own copy of the sweep file, which every machine
    sees.
    """
    return [
        "-m",
        "tfzoo",
        "sweep",
        str(folder / state.SWEEP),
        "--run",
        str(folder),
        "--cell",
        str(run.number),
    ]


def threads(plan: Plan) -> int:
    """The cores that a run asks for."""
    return plan.threads or 1


def gpus(plan: Plan) -> int:
    """The GPUs that a run asks for: ``devices``, where it does not train on processors."""
    recipes = [recipe for cell in plan.cells for recipe in cell.recipes.values()]
    on_cpu = any(recipe["trainer"].get("accelerator") == "cpu" for recipe in recipes)
    return 0 if on_cpu else plan.devices or 0


def library(extra: str, name: str) -> Any:
    """An engine's library.

    Raises:
        BadOption: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise BadOption(
            f"--engine {extra} needs {name}, which cannot be imported ({error}): pip install 'tfzoo[{extra}]'"
        ) from None


def parts(runs: Sequence[Run], most: int) -> list[Sequence[Run]]:
    """Runs in groups of at most so many."""
    return [runs[start : start + most] for start in range(0, len(runs), most)]
