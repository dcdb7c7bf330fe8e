"""Runs of a sweep on this machine, some at a time, each with its own cores or devices, and each in
a process of its own. On Linux these are forks of multiprocessing's server, which imports PyTorch,
Lightning and tfzoo once; elsewhere each is a new Python. None outlives the sweep that started it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any, Self

from tfzoo.base import adapters
from tfzoo.base.loading import task_class
from tfzoo.base.memory import RAN_OUT
from tfzoo.base.processes import CODES
from tfzoo.base.terminal import notify
from tfzoo.errors import BadRun, TfzooError
from tfzoo.runs import checkpoints
from tfzoo.runs.folder import (
    CONFIG,
    LOCK,
    LOCK_OWNER,
    PASSED,
    Held,
    holding,
    read_summary,
    write_config,
)
from tfzoo.runs.machine import available_cores
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import tune
from tfzoo.sweep.run.state import MOMENT, STOPPED, WAITING, Notify, Run, record_failure

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
OUTPUT = "output.txt"
"""What ``fit`` printed, in the run's folder."""
POLL_SECONDS = 0.5


def run(plan: Plan, folder: Path, runs: Sequence[Run], jobs: int, on_change: Notify) -> int:
    """Complete runs, ``jobs`` at a time; ``on_change`` is called at each change of status.

    Returns 0, or the exit code of the signal that stopped it: 130 after Ctrl-C, 75 after SIGTERM.
    Running trainings then end with a checkpoint; after a second Ctrl-C they end at once.
    """
    inherited = {
        key: value
        for key, value in os.environ.items()
        if key not in LAUNCHER_VARIABLES and not key.startswith("SLURM_NTASKS")
    }
    common = {"WANDB_RUN_GROUP": folder.name, **inherited}
    with Stop() as stop:
        pool = Pool(plan, [common | slot for slot in slots(plan, jobs)], stop, on_change)
        if plan.tune:
            complete_trials(pool, runs)
            runs = tune.decided(runs, plan, on_change)
        pool.complete(runs)
    return stop.code


def slots(plan: Plan, jobs: int) -> list[dict[str, str]]:
    """Environment variables of each of ``jobs`` simultaneous runs: its threads and, if there are
    accelerators, its devices.
    """
    threads = str(threads_per_run(plan, max(1, available_cores() // jobs)))
    common = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    import torch

    named, each = os.environ.get("CUDA_VISIBLE_DEVICES"), plan.devices or 1
    devices = [name for name in (named or "").split(",") if name]
    devices = devices or [str(at) for at in range(torch.cuda.device_count())]
    if not devices:
        return [common] * jobs
    groups = [
        devices[start : start + each] for start in range(0, len(devices) - each + 1, each)
    ] or [devices]
    return [
        {**common, "CUDA_VISIBLE_DEVICES": ",".join(groups[job % len(groups)])}
        for job in range(jobs)
    ]


def threads_per_run(plan: Plan, default: int = 1) -> int:
    """CPU threads of each run: ``threads`` of the sweep file, else ``OMP_NUM_THREADS``, else
    ``default``.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return plan.threads or (int(given) if given.isdecimal() else 0) or default


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


def complete_trials(pool: Pool, runs: Sequence[Run]) -> None:
    """Complete the trials for the cells of which no value was chosen yet, and wait for those that
    another process is training.
    """
    untuned = [run for run in runs if tune.tuned(run, pool.plan) is None]
    every = {trial.folder: trial for run in untuned for trial in tune.trials(run, pool.plan)}
    while not pool.stop.code:
        found = {folder: trial.status for folder, trial in every.items()}
        pool.complete([every[folder] for folder in every if found[folder] in WAITING])
        if "running" not in found.values():
            return
        time.sleep(POLL_SECONDS)


class Pool:
    """The processes of a sweep, one for each of the ``environments`` at a time."""

    def __init__(
        self, plan: Plan, environments: Sequence[Mapping[str, str]], stop: Stop, on_change: Notify
    ) -> None:
        self.plan, self.stop, self.on_change = plan, stop, on_change
        self.free = list(environments)
        self.running: dict[int, tuple[Run, BaseProcess, Mapping[str, str]]] = {}

    def complete(self, runs: Sequence[Run]) -> None:
        """Train runs until all have ended, or a signal came and the running ones have stopped."""
        queue = list(runs)
        while self.running or (queue and not self.stop.code):
            while queue and self.free and not self.stop.code:
                self.start(queue.pop(0))
            ready = wait([*self.running], timeout=1)
            for sentinel in [one for one in self.running if one in ready]:
                self.end(sentinel)

    def start(self, run: Run) -> None:
        """Start the process of a run."""
        environment = self.free.pop(0)
        try:
            process = start(run, command(run, self.plan), environment, imports(run, self.plan))
        except EOFError:  # a signal to the whole group has ended the fork server
            if not self.stop.code:
                raise
            return
        self.running[process.sentinel] = run, process, environment
        self.stop.processes.add(process)
        if self.stop.code:  # by a signal that came meanwhile
            process.terminate()
        self.on_change(run, "running")

    def end(self, sentinel: int) -> None:
        """Report a run whose process has ended."""
        run, process, environment = self.running.pop(sentinel)
        process.join()
        self.stop.processes.discard(process)
        self.free.append(environment)
        code = process.exitcode or 0
        if code not in (0, *STOPPED) and not self.stop.code:
            with suppress(Held), holding(run.folder, MOMENT):
                fail(run, code)
        self.on_change(run, run.status)


def command(run: Run, plan: Plan) -> tuple[str, ...]:
    """The module whose ``main`` trains a run, and its arguments."""
    if plan.module:
        own = (str(run.folder), plan.module, plan.data, *run.metrics)
        return ("tfzoo.sweep.run.train_module", *own)
    recipe, *options = plan.fit_arguments(run.cell, run.tuned)
    place = ("--run", str(run.folder), f"--seed={run.seed}")
    trust = ["--trust"] if plan.trust else []
    return ("tfzoo.commands.main", "fit", recipe, *place, *options, *trust)


def imports(run: Run, plan: Plan) -> list[str]:
    """The modules that all trainings of a sweep import, but for those of a user."""
    if plan.module:
        return [__name__, "tfzoo.sweep.run.train_module"]
    task = task_class(next(iter(run.cell.recipes.values()))["task"]).__module__
    return [__name__, "tfzoo.training.train", task, "matplotlib.backends.backend_agg"]


def start(
    run: Run, words: Sequence[str], environment: Mapping[str, str], imports: Sequence[str]
) -> BaseProcess:
    """Start a training; the fork server imports modules when the first one starts."""
    run.folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "linux":
        CONTEXT.set_forkserver_preload([*imports])
    process: BaseProcess = CONTEXT.Process(target=main, args=(run, words, environment))
    process.start()
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
            try:
                code = call(words)
                if not code and run.is_tested and "test" not in read_summary(run.folder):
                    code = call(("tfzoo.commands.main", "score", str(run.folder)))
            except Exception as error:  # of any kind: a module is somebody else's
                traceback.print_exc()
                said = str(error)
                if not isinstance(error, TfzooError):
                    said = f"{type(error).__name__}: {said}"
                record_failure(run.folder, said)
                code = 1
            if code not in (0, *STOPPED):
                fail(run, code)
            return code
    except Held:
        return 0


def prepare(run: Run) -> None:
    """Prepare the folder: clear a run that cannot be resumed, and write the configuration."""
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
    code: int = import_module(module).main(arguments)
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
        return "killed by SIGKILL; if nobody killed it, the system was out of memory"
    output = run_folder / OUTPUT
    printed = output.read_text("utf-8", "replace") if output.is_file() else ""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("tfzoo: ")]
    message = "".join((own or lines)[-1:]).removeprefix("tfzoo: ")
    if any(words in message for words in (*RAN_OUT, "MemoryError")):
        message = f"out of memory: {message}"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}: {message}"
    return message or f"ended with exit code {code}"
