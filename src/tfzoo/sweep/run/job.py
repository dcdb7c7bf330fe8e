"""One run of a sweep as the job of a cluster, or of an agent of Weights & Biases:
``tfzoo sweep FILE --run FOLDER --cell I``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tfzoo.errors import BadOption, BadRun
from tfzoo.runs.folder import as_yaml
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import state
from tfzoo.sweep.run.creation import SWEEP
from tfzoo.sweep.run.outcome import OVER, record_failure
from tfzoo.sweep.run.state import STOPPED, Run, Status

IS_POSIX = os.name == "posix"
CHECKPOINT_SECONDS = 60.0
"""Seconds that a stopped run has for its last checkpoint."""
POLL_SECONDS = 2.0
"""Seconds between two questions to a cluster."""
UNSEEN = 3
"""The exit code of a job whose machine does not see the folder."""
MAX_TRIES = 3
"""A run that ends this often without recording a reason has failed."""


PR_SET_PDEATHSIG = 1
"""From ``<sys/prctl.h>``."""


@dataclass(frozen=True)
class Ended:
    """How a job ended: the machine, the exit code, and the last line that it printed."""

    host: str
    code: int
    message: str


class Job:
    """A run that can be sent to another machine. If the process that runs it dies, the training is
    killed; if it is interrupted, the training ends with a checkpoint.
    """

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.folder, self.arguments = folder, arguments
        self.child: subprocess.Popen[bytes] | None = None

    def __call__(self) -> Ended:
        host = socket.gethostname()
        # A machine that joined later may not see the folder, and would create a new one.
        if not (self.folder / SWEEP).is_file():
            return Ended(host, UNSEEN, "")
        with TemporaryFile() as output:
            self.child = subprocess.Popen(
                [sys.executable, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=die_with_parent,
            )
            try:
                # Not wait(): a signal handler that waits too would block on it.
                while self.child.poll() is None:
                    time.sleep(0.1)
            except BaseException:
                self.stop()
                raise
            output.seek(max(0, output.seek(0, os.SEEK_END) - 4096))
            lines = output.read().decode("utf-8", "replace").split("\n")
        printed = [line.strip().removeprefix("tfzoo: ") for line in lines if line.strip()]
        return Ended(host, self.child.returncode, printed[-1] if printed else "")

    def stop(self) -> None:
        """End the run with a checkpoint."""
        if self.child is None:
            return
        self.child.terminate()
        end = time.monotonic() + CHECKPOINT_SECONDS
        while self.child.poll() is None and time.monotonic() < end:
            time.sleep(0.1)

    def checkpoint(self) -> Any:
        """Called by submitit when the job's time is over or it is preempted: submit it again."""
        self.stop()
        submitit = load_library("slurm", "submitit")
        return submitit.helpers.DelayedSubmission(Job(self.folder, self.arguments))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "child": None}


def die_with_parent() -> None:
    """Let Linux kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run_job(job: Job) -> Ended:
    """The function that Ray calls remotely. It lies in this module because Ray imports the module
    on the remote machine, and this one does not import torch.
    """
    return job()


class RetryPolicy:
    """Decides whether a run whose job ended is over or is submitted again."""

    def __init__(self) -> None:
        self.silent: Counter[int] = Counter()

    def settle(self, run: Run, ended: Ended | None) -> Status | None:
        """The final status of a run, or None if it has to run again.

        It runs again if its machine was lost (``ended`` is None) or shuts down, if another process
        still holds it, or if it ended without a reason fewer than ``MAX_TRIES`` times.

        Raises:
            BadRun: the machine does not see the sweep's folder.
        """
        if ended and ended.code == UNSEEN:
            raise BadRun(
                f"the machine {ended.host} does not see {run.folder}: name a folder that all "
                "machines share with --run"
            )
        found = state.status(run)
        if found in OVER:
            return found
        if ended is None or ended.code in STOPPED or found == "running":
            return None
        self.silent[run.number] += 1
        if self.silent[run.number] < MAX_TRIES:
            return None
        reason = f"on {ended.host}: {ended.message or 'no output'} (exit code {ended.code})"
        record_failure(run.folder, reason)
        return "failed"


def sweep_arguments(folder: Path, run: Run, trust: bool) -> list[str]:
    """Python's arguments for one run. The sweep file is the folder's copy, which every machine
    sees.
    """
    cell = ["--run", str(folder), "--cell", str(run.number), *(["--trust"] if trust else [])]
    return ["-m", "tfzoo", "sweep", str(folder / SWEEP), *cell]


def wandb_sweep(plan: Plan, folder: Path, seeds: str = "") -> str:
    """The YAML for ``wandb sweep``: a grid over one parameter, ``cell``, the number of a run. Each
    ``wandb agent`` runs ``tfzoo sweep ... --cell=I``, with ``--seeds`` if they are not the file's.
    """
    configuration: dict[str, Any] = {
        "name": folder.name,
        "method": "grid",
        "metric": {"name": plan.metric.name, "goal": f"{plan.metric.mode}imize"},
        "parameters": {
            "cell": {"values": [run.number for run in state.planned_runs(plan, folder)]}
        },
        "command": [
            "${env}",
            "tfzoo",
            "sweep",
            str(plan.file),
            "--run",
            str(folder.absolute()),
            *(["--seeds", seeds] if seeds else []),
            "${args}",
        ],
    }
    return as_yaml(configuration)


def load_library(extra: str, name: str) -> Any:
    """The library of an engine.

    Raises:
        BadOption: it cannot be imported, or this is Windows.
    """
    if not IS_POSIX:
        raise BadOption(f"--engine {extra} needs Linux or macOS: on Windows leave --engine out")
    try:
        return import_module(name)
    except ImportError as error:
        raise BadOption(
            f"--engine {extra} needs {name}, which cannot be imported ({error}): "
            f"pip install 'tfzoo[{extra}]'"
        ) from None
