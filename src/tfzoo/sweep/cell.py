"""One run of a sweep, from its folder as it is to its end, in a process of its own."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tfzoo.errors import BadRun
from tfzoo.runs import checkpoints, config, summary
from tfzoo.runs.out_of_memory import WORDS
from tfzoo.sweep import state, supervisor, tune
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.state import Run, Status

OUTPUT = "output.txt"
"""What ``fit`` printed, in the run's folder."""
STOPPED = (75, 130)
"""Exit codes of ``fit`` after a signal: it can go on."""
LAUNCHER = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TFZOO_RUN_FOLDER",
)
"""What tells a process that it is one of several; a run is not one of the sweep's."""

WORST = 20.0
"""Nats: more than guessing costs among any number of words or classes that there is, e^20."""

Told = Callable[[Run, str], object]


class Stop:
    """Ends the runs of this process: asked once, with a checkpoint; asked again, at once. ``code``
    is the exit code, 0 while not asked.
    """

    def __init__(self) -> None:
        self.code = 0
        self.children: set[subprocess.Popen[bytes]] = set()

    def ask(self, number: int) -> None:
        """Hand a signal on. Ctrl-C as SIGTERM: at the other, ``fit`` validates, and one validation
        more could choose another best.
        """
        again, self.code = (
            bool(self.code) and number == signal.SIGINT,
            max(self.code, 130 if number == signal.SIGINT else 75),
        )
        for child in list(self.children):
            self._send(
                child,
                signal.SIGKILL if again else signal.SIGTERM if number == signal.SIGINT else number,
            )

    def add(self, child: subprocess.Popen[bytes]) -> None:
        self.children.add(child)
        if self.code:
            self._send(child, signal.SIGTERM)

    def remove(self, child: subprocess.Popen[bytes]) -> None:
        self.children.discard(child)

    def _send(self, child: subprocess.Popen[bytes], number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number) if number == signal.SIGKILL else child.send_signal(number)


def execute(
    run: Run,
    plan: Plan,
    *,
    told: Told = lambda run, status: None,
    environment: Mapping[str, str] | None = None,
    stop: Stop | None = None,
) -> Status:
    """Bring one run to its end, in a child process that ends with this one; returns its status.

    What is completed or failed is left as it is; what another process works on too. ``told`` is
    called at each change. ``environment`` is added to the child's, such as its threads or its
    device.

    Raises:
        BadRun: the folder holds a run of other settings.
    """
    stop = stop or Stop()
    if plan.tune and not run.tuned and not state.failure(run.folder):
        chosen = tune.choose(
            run,
            plan,
            lambda trial: execute(trial, plan, told=told, environment=environment, stop=stop),
        )
        if chosen is None:
            return "half"
        run = chosen
    run.folder.mkdir(parents=True, exist_ok=True)
    with state.lock(run.folder) as held:
        if held is None:
            return "running"
        if state.failure(run.folder):
            return "failed"
        if state.complete(run.folder):
            return "completed"
        told(run, "running")
        if plan.tune and not run.tuned:
            state.fail(run.folder, tune.failure(run, plan), 1)
        else:
            prepare(run, plan)
            train(run, plan, held, environment or {}, stop)
        found: Status = (
            "failed"
            if state.failure(run.folder)
            else "completed"
            if state.complete(run.folder)
            else "half"
        )
    told(run, found)
    return found


def prepare(run: Run, plan: Plan) -> None:
    """Make the folder ready: a run that cannot be gone on with is begun anew, its configuration is
    there before ``fit`` is.
    """
    state.differs(run, plan)
    try:
        checkpoints.newest(run.folder)
    except BadRun:
        clear(run.folder)
    if not (run.folder / config.FILE).is_file():
        config.write(run.folder, run.recipe)


def clear(folder: Path) -> None:
    """Remove all of a run but its lock."""
    for path in folder.iterdir():
        if path.name != state.LOCK:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def train(run: Run, plan: Plan, held: int, environment: Mapping[str, str], stop: Stop) -> None:
    """Let ``fit`` train, and once more where it was killed: the second time it goes on from its
    checkpoint. Record why it failed.
    """
    for last in (False, True):
        code = spawn(run, plan, held, environment, stop)
        if stop.code and not state.complete(run.folder):
            return
        if code != -signal.SIGKILL or last:
            break
    if reason := problem(run, plan, code):
        state.fail(run.folder, reason, code)


def spawn(run: Run, plan: Plan, held: int, environment: Mapping[str, str], stop: Stop) -> int:
    """One child, with the lock in its hands; returns its exit code."""
    words = plan.words(run.cell, run.tuned)
    fit = [
        sys.executable,
        "-m",
        "tfzoo",
        "fit",
        words[0],
        "--run",
        str(run.folder),
        f"--seed={run.seed}",
        *words[1:],
    ]
    inherited = {
        key: value
        for key, value in os.environ.items()
        if key not in LAUNCHER and not key.startswith("SLURM_NTASKS")
    }
    inherited.setdefault(
        "WANDB_RUN_GROUP",
        next(path for path in run.folder.parents if path.name == run.cell.name).parent.name,
    )
    with (run.folder / OUTPUT).open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, *fit],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(held,),
            env={**inherited, **environment},
            process_group=0,
        )
    stop.add(child)
    try:
        return child.wait()
    finally:
        stop.remove(child)
        if child.stdin:
            child.stdin.close()


def problem(run: Run, plan: Plan, code: int) -> str:
    """Why a run that ended did fail; ``""`` where it did not."""
    if code in STOPPED:
        return ""
    if code:
        return reason(run.folder, code)
    fit = summary.read(run.folder).get("fit", {})
    budget, steps, tokens, most = (
        plan.budget,
        fit.get("steps", 0),
        fit.get("tokens", 0),
        run.recipe["trainer"].get("max_steps") or -1,
    )
    if (
        budget.time
        and fit.get("seconds", 0) >= budget.seconds
        and (steps < most or tokens < (budget.tokens or 0))
    ):
        return f"budget.time {budget.time} was over after {steps:,} steps"
    if budget.tokens and tokens < budget.tokens and steps >= most > 0:
        return f"trainer.max_steps ended it after {tokens:,} of {budget.tokens:,} tokens (budget.tokens): raise it"
    metric = plan.metric.name if run.number >= 0 else tune.metric(run, plan).name
    if not math.isfinite(state.score(run.folder, metric)):
        measured = metric in state.scores(run.folder)
        return f"diverged: {metric} is not finite" if measured else f"it measured no {metric}"
    if (loss := state.score(run.folder, "val/loss")) > WORST:
        return f"diverged: val/loss is {loss:.3g} at the end; who guesses has less"
    return ""


def reason(folder: Path, code: int) -> str:
    """Of a child that ended with this code: what it said of itself, else its last words."""
    ended = str(summary.read(folder).get("fit", {}).get("ended", ""))
    if ended.startswith("failed: "):
        said = ended.removeprefix("failed: ")
        return f"diverged: {said}" if "not finite" in said else said
    lines = [line.strip() for line in tail(folder / OUTPUT).splitlines() if line.strip()]
    said = next(
        (line.removeprefix("tfzoo: ") for line in reversed(lines) if line.startswith("tfzoo: ")),
        lines[-1] if lines else "",
    )
    out = "out of memory: " if any(words in said for words in (*WORDS, "MemoryError")) else ""
    if code == -signal.SIGKILL:
        return "killed by SIGKILL, twice: by the system for want of memory, if by nobody else"
    if code < 0:
        return f"{out}killed by {signal.Signals(-code).name}: {said}"
    return f"{out}{said}" or f"ended with exit code {code}"


def tail(path: Path, size: int = 8192) -> str:
    """The end of a file."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - size))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
