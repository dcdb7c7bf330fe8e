"""Runs of a sweep on this machine, some at a time, each with its own cores or devices."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tfzoo.base.loading import task_class
from tfzoo.runs.lock import Held, holding
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import execution, process, state, tune
from tfzoo.sweep.run.process import Stop
from tfzoo.sweep.run.resources import slots
from tfzoo.sweep.run.state import Notify, Run

KILLED = -9
"""The exit code of a process that got SIGKILL."""
POLL_SECONDS = 0.5


def run(plan: Plan, folder: Path, runs: Sequence[Run], jobs: int, on_change: Notify) -> int:
    """Complete runs, ``jobs`` at a time; ``on_change`` is called at each change of status.

    Returns 0, or the exit code of the signal that stopped it: 130 after Ctrl-C, 75 after SIGTERM.
    Running trainings then end with a checkpoint; after a second Ctrl-C they end at once.
    """
    environments = [{**process.inherited(folder.name), **slot} for slot in slots(plan, jobs)]
    with Stop() as stop:
        pool = Pool(plan, environments, stop, on_change)
        if plan.tune:
            complete_trials(pool, tune.all_trials(runs, plan))
            runs = tune.decided(runs, plan, on_change)
        pool.complete(runs)
    return stop.code


def complete_trials(pool: Pool, trials: Sequence[Run]) -> None:
    """Complete the trials of tuning, and wait for those that another process is training."""
    while not pool.stop.code:
        found = {trial.folder: state.status(trial) for trial in trials}
        left = [trial for trial in trials if found[trial.folder] not in state.OVER]
        pool.complete([trial for trial in left if found[trial.folder] != "running"])
        if "running" not in found.values():
            return
        time.sleep(POLL_SECONDS)


class Pool:
    """The processes of a sweep, one for each of the ``environments`` at a time."""

    def __init__(
        self,
        plan: Plan,
        environments: Sequence[Mapping[str, str]],
        stop: Stop,
        on_change: Notify,
    ) -> None:
        self.plan, self.stop, self.on_change = plan, stop, on_change
        self.free = list(environments)
        self.running: dict[int, tuple[Run, BaseProcess, Mapping[str, str]]] = {}
        self.kills: Counter[str] = Counter()

    def complete(self, runs: Sequence[Run]) -> None:
        """Train runs until all have ended, or a signal came and the running ones have stopped."""
        queue = list(runs)
        while self.running or (queue and not self.stop.code):
            while queue and self.free and not self.stop.code:
                self.start(queue.pop(0))
            ready = wait([*self.running], timeout=1)
            for sentinel in [one for one in self.running if one in ready]:
                queue += self.end(sentinel)

    def start(self, run: Run) -> None:
        """Start the process of a run."""
        environment = self.free.pop(0)
        words = execution.command(run, self.plan)
        child = process.start(run, words, environment, imports(run, self.plan))
        self.running[child.sentinel] = run, child, environment
        self.stop.processes.add(child)
        if self.stop.code:  # by a signal that came meanwhile
            child.terminate()
        self.on_change(run, "running")

    def end(self, sentinel: int) -> list[Run]:
        """Report a run whose process has ended; returns it if it is to be trained again, as one
        is, once, that was killed.
        """
        run, child, environment = self.running.pop(sentinel)
        child.join()
        self.stop.processes.discard(child)
        self.free.append(environment)
        code = child.exitcode or 0
        self.kills[run.name] += code == KILLED
        if code == KILLED and self.kills[run.name] == 1 and not self.stop.code:
            return [run]
        if code not in (0, *state.STOPPED) and not self.stop.code:
            with suppress(Held), holding(run.folder, state.MOMENT):
                execution.fail(run, code)
        self.on_change(run, state.status(run))
        return []


def imports(run: Run, plan: Plan) -> list[str]:
    """The modules that all trainings of a sweep import, but for those of a user."""
    if plan.module:
        return [process.__name__, "tfzoo.sweep.run.train_module"]
    task = task_class(next(iter(run.cell.recipes.values()))["task"]).__module__
    return [process.__name__, "tfzoo.training.train", task, "matplotlib.backends.backend_agg"]
