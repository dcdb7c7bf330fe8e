"""One run of a sweep, trained in a child process."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic

from tfzoo.errors import BadRun
from tfzoo.runs import checkpoints
from tfzoo.runs.files import remove_leftovers
from tfzoo.runs.folder import CONFIG, read_summary, write_config
from tfzoo.runs.lock import LOCK, LOCK_OWNER, PASSED, Held, holding
from tfzoo.sweep.plan.own_module import NoMetric
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import creation, processes, prune, state, tune
from tfzoo.sweep.run.outcome import record_failure
from tfzoo.sweep.run.processes import SIGKILL, Child, Start
from tfzoo.sweep.run.prune import Notify
from tfzoo.sweep.run.state import STOPPED, Run, Status
from tfzoo.training.out_of_memory import WORDS
from tfzoo.training.signals import PAUSE

OUTPUT = "output.txt"
"""What ``fit`` printed, in the run's folder."""
TAIL = 8192
"""The bytes at its end that are read of a text."""
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


INTERRUPTED = (*STOPPED, -signal.SIGTERM, -signal.SIGINT)
"""Exit codes of a training that somebody stopped: it can go on."""


class Stop:
    """Stops the trainings of this process: at the first signal with a checkpoint, at the second
    Ctrl-C at once. ``code`` is the exit code of the sweep, 0 while no signal came.
    """

    def __init__(self) -> None:
        self.code = 0
        self.children: set[Child] = set()

    def request(self, number: int) -> None:
        """Pass a signal on to all children.

        Ctrl-C is passed on as SIGTERM: after Ctrl-C ``fit`` validates, and an additional validation
        could change which checkpoint is best.
        """
        interrupted = number == signal.SIGINT
        at_once = bool(self.code) and interrupted
        self.code = max(self.code, 130 if interrupted else 75)
        for child in list(self.children):
            send(child, SIGKILL if at_once else signal.SIGTERM if interrupted else number)

    def add(self, child: Child) -> None:
        self.children.add(child)
        if self.code:
            send(child, signal.SIGTERM)

    def remove(self, child: Child) -> None:
        self.children.discard(child)


def send(child: Child, number: int) -> None:
    """Send a signal to a supervisor, SIGKILL to its whole group. Windows has no such signals:
    closing its pipe makes the supervisor kill the training.
    """
    with suppress(ProcessLookupError):
        if not hasattr(os, "killpg"):
            if child.stdin:
                child.stdin.close()
        elif number == SIGKILL:
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)


def execute(
    run: Run,
    plan: Plan,
    *,
    on_change: Notify = lambda run, status: None,
    environment: Mapping[str, str] | None = None,
    stop: Stop | None = None,
    start: Start = processes.start,
    pause: int | None = None,
) -> Status:
    """Train one run to its end in a child process that ends with this one; returns its status.

    A run that is over, or locked by another process, is left alone.

    Args:
        on_change: called with the run and its status at each change.
        environment: added to the child's environment, such as its threads or its device.
        stop: passes signals on to the child.
        start: starts the child.
        pause: the step after which training pauses, with a checkpoint.

    Raises:
        BadRun: the folder holds a run with other settings.
    """
    stop = stop or Stop()
    if plan.tune and not run.tuned and not run.outcome.is_over:
        chosen = tune.choose(
            run,
            plan,
            lambda trial: execute(
                trial,
                plan,
                on_change=on_change,
                environment=environment,
                stop=stop,
                start=start,
            ),
        )
        if chosen is None:
            return "interrupted"
        run = chosen
    run.folder.mkdir(parents=True, exist_ok=True)
    try:
        with holding(run.folder) as passed:
            if (found := ended(run)) is not None:
                return found
            on_change(run, "running")
            if plan.tune and not run.tuned:
                record_failure(run.folder, tune.failure(run, plan))
            else:
                prepare(run, plan)
                added = {PASSED: passed} | ({} if pause is None else {PAUSE: str(pause)})
                train(run, plan, {**(environment or {}), **added}, stop, start)
            found = ended(run) or "interrupted"
            if pause is not None and found == "interrupted" and prune.pause(run, plan, pause):
                found = "paused"
    except Held:
        return "running"
    on_change(run, found)
    return found


def ended(run: Run) -> Status | None:
    """How a run is over, or None if there is something left to do."""
    if (found := run.outcome).is_over:
        return found.state
    return "pruned" if state.is_pruned(run) else None


def prepare(run: Run, plan: Plan) -> None:
    """Prepare the folder: clear a run that cannot be resumed, and write the configuration."""
    remove_leftovers(run.folder)
    creation.check_unchanged(run, plan)
    try:
        checkpoints.newest(run.folder)
    except BadRun:
        clear(run.folder)
    if not (run.folder / CONFIG).is_file():
        write_config(run.folder, run.recipe)


def clear(path: Path) -> None:
    """Remove everything from a run's folder except its lock."""
    for inner in path.iterdir():
        if inner.name not in (LOCK, LOCK_OWNER):
            shutil.rmtree(inner) if inner.is_dir() else inner.unlink()


def train(run: Run, plan: Plan, environment: Mapping[str, str], stop: Stop, start: Start) -> None:
    """Let ``fit`` train, and resume once if it was killed. Records why it failed.

    Raises:
        NoMetric: the module does not log a metric that the sweep names.
    """
    for last in (False, True):
        code = spawn(run, plan, environment, stop, start)
        if plan.module and code == NoMetric.code:  # so would all others
            why = str(read_summary(run.folder)["fit"]["ended"]).removeprefix("interrupted: ")
            raise NoMetric(f"{plan.file}: {why}")
        if stop.code or run.outcome.is_over or code in INTERRUPTED:
            return
        if code != -SIGKILL or last:
            break
    record_failure(run.folder, exit_reason(run.folder, code))


def spawn(run: Run, plan: Plan, environment: Mapping[str, str], stop: Stop, start: Start) -> int:
    """Train in one child process; returns its exit code. Records the time that it took."""
    if plan.module:
        metrics = [metric.name for metric in (plan.metric, *plan.also)]
        command = ["-m", "tfzoo.sweep.run.train_module", str(run.folder), plan.module, plan.data]
        command += metrics
    else:
        recipe, *options = plan.fit_arguments(run.cell, run.tuned)
        command = ["-m", "tfzoo", "fit", recipe, "--run", str(run.folder)]
        command += [f"--seed={run.seed}", *options]
    with (run.folder / OUTPUT).open("ab") as output:
        child = start(command, inherited(sweep_folder(run).name, environment), output)
    began = monotonic()
    stop.add(child)
    try:
        return child.wait()
    finally:
        state.add_wall_seconds(run.folder, monotonic() - began)
        stop.remove(child)
        if child.stdin:
            child.stdin.close()


def inherited(sweep: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a training: this process's, without what would make it one rank of
    several, and with ``environment``.
    """
    found = {
        key: value
        for key, value in os.environ.items()
        if key not in LAUNCHER_VARIABLES and not key.startswith("SLURM_NTASKS")
    }
    return {"WANDB_RUN_GROUP": sweep, **found, **environment}


def sweep_folder(run: Run) -> Path:
    """The folder that the cell's folder lies in."""
    return next(path for path in run.folder.parents if path.name == run.cell.name).parent


def exit_reason(run_folder: Path, code: int) -> str:
    """Why a child ended with this exit code, by the last line that it printed."""
    lines = [line.strip() for line in tail(run_folder / OUTPUT).splitlines() if line.strip()]
    message = next(
        (line.removeprefix("tfzoo: ") for line in reversed(lines) if line.startswith("tfzoo: ")),
        lines[-1] if lines else "",
    )
    out = "out of memory: " if any(words in message for words in (*WORDS, "MemoryError")) else ""
    if code == -SIGKILL:
        return "killed by SIGKILL twice; if nobody killed it, the system was out of memory"
    if code < 0:
        return f"{out}killed by {signal.Signals(-code).name}: {message}"
    return f"{out}{message}" or f"ended with exit code {code}"


def tail(path: Path) -> str:
    """The end of a text file; empty if it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - TAIL))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
