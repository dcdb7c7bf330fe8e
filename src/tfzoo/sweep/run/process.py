"""The processes in which runs are trained. On Linux they are forks of multiprocessing's server,
which imports PyTorch, Lightning and tfzoo once; elsewhere each is a new Python. None outlives the
sweep that started it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, Self

from tfzoo.base import adapters
from tfzoo.base.signals import CODES
from tfzoo.base.terminal import notify
from tfzoo.sweep.run.execution import OUTPUT, train
from tfzoo.sweep.run.state import Run

CONTEXT: Any = get_context("forkserver" if sys.platform == "linux" else "spawn")
LAUNCHER_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TFZOO_RUN_FOLDER",
)
"""Environment variables that make a process one rank of several; a run does not inherit them."""


def start(
    run: Run, words: Sequence[str], environment: Mapping[str, str], imports: Sequence[str]
) -> BaseProcess:
    """Start a training. The fork server, which imports modules when the first one starts, and a new
    Python read their number of threads from ``environment`` then.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        if sys.platform == "linux":
            CONTEXT.set_forkserver_preload([*imports])
        process: BaseProcess = CONTEXT.Process(target=main, args=(run, words, environment))
        process.start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return process


def main(run: Run, words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Train a run in this process, which leads a process group of its own; what it prints goes to
    a file of the run's folder.
    """
    Thread(target=end_with_parent, daemon=True).start()
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    with (run.folder / OUTPUT).open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    import torch

    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    code = train(run, words)
    adapters.run_exit_functions()
    sys.exit(code)


def end_with_parent() -> None:
    """Wait until the sweep ends, then kill this process, with the workers of data loaders and
    further ranks.
    """
    if parent := parent_process():
        wait([parent.sentinel])
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def inherited(sweep: str) -> dict[str, str]:
    """The environment of a training: this process's, without what would make it one rank of
    several.
    """
    found = {
        key: value
        for key, value in os.environ.items()
        if key not in LAUNCHER_VARIABLES and not key.startswith("SLURM_NTASKS")
    }
    return {"WANDB_RUN_GROUP": sweep, **found}


class Stop:
    """Context in which signals stop the trainings of this process: the first with a checkpoint, a
    second Ctrl-C at once. ``code`` is the exit code of the sweep, 0 while no signal came.
    """

    def __init__(self) -> None:
        self.code = 0
        self.processes: set[BaseProcess] = set()

    def __enter__(self) -> Self:
        self.before = {number: signal.signal(number, self.request) for number in CODES}
        return self

    def __exit__(self, error: object, *more: object) -> None:
        if error:
            self.request(signal.SIGTERM)
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def request(self, number: int, frame: object = None) -> None:
        """Stop all trainings.

        Ctrl-C is passed on as SIGTERM: after Ctrl-C ``fit`` validates, and an additional validation
        could change which checkpoint is best.
        """
        at_once = bool(self.code) and number == signal.SIGINT
        if self.processes and not self.code:
            notify(
                "stopping: running trainings end with a checkpoint; a second Ctrl-C ends them at "
                "once"
            )
        self.code = max(self.code, CODES[signal.Signals(number)])
        for process in self.processes:
            process.kill() if at_once else process.terminate()
            if at_once and hasattr(os, "killpg"):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid or 0, signal.SIGKILL)
