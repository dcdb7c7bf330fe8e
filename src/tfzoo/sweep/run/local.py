"""Runs of a sweep on this machine, some at a time, each with its own cores or devices."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from tfzoo.base.terminal import notify
from tfzoo.errors import TfzooError
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import processes, prune
from tfzoo.sweep.run.execution import Stop, execute, inherited
from tfzoo.sweep.run.processes import Start, WarmParent
from tfzoo.sweep.run.prune import Notify
from tfzoo.sweep.run.resources import slots, warn_of_other_threads
from tfzoo.sweep.run.state import Run, Status
from tfzoo.sweep.run.supervisor import HANDLED

RECIPE_IMPORTS = ("tfzoo.training.train", "matplotlib.backends.backend_agg")
MODULE_IMPORTS = ("tfzoo.training.swap_parts",)
"""What all trainings of a recipe, or of a module, import. The module itself is not among it: a fork
runs its code as it stands in its file by then.
"""


def run(plan: Plan, folder: Path, runs: Sequence[Run], jobs: int, on_change: Notify) -> int:
    """Complete runs, ``jobs`` at a time; ``on_change`` is called at each change of status.

    Returns 0, or the exit code of the signal that stopped it: 130 after Ctrl-C, 75 after SIGTERM.
    Running trainings then end with a checkpoint; after a second Ctrl-C they end at once.
    """
    stop, free = Stop(), SimpleQueue[dict[str, str]]()
    environments = slots(plan, jobs)
    warn_of_other_threads(plan, folder, int(environments[0]["OMP_NUM_THREADS"]))
    for slot in environments:
        free.put(slot)
    with (
        signals(stop),
        starting(plan, folder, runs, environments[0]) as start,
        ThreadPoolExecutor(jobs) as pool,
    ):

        def one(run: Run, pause: int | None) -> Status | None:
            if stop.code:
                return None
            slot = free.get()
            try:
                return execute(
                    run,
                    plan,
                    on_change=on_change,
                    environment=slot,
                    stop=stop,
                    start=start,
                    pause=pause,
                )
            except TfzooError:  # of all runs: none goes on
                stop.request(signal.SIGTERM)
                raise
            finally:
                free.put(slot)

        def train(some: Sequence[Run], pause: int | None) -> int:
            finish(pool, stop, {pool.submit(one, run, pause) for run in some})
            return stop.code

        return prune.run(plan, folder, runs, train, on_change)


def finish(pool: ThreadPoolExecutor, stop: Stop, waiting: set[Future[Any]]) -> None:
    """Wait until all are done; after an error none goes on."""
    announced = False
    try:
        while waiting:
            if stop.code and stop.children and not announced:
                announced = True
                notify(
                    "stopping: running trainings end with a checkpoint; "
                    "a second Ctrl-C ends them at once"
                )
            # The timeout lets this thread handle signals.
            done, waiting = wait(waiting, timeout=1, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        stop.request(signal.SIGTERM)
        raise


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Pass signals on to the running trainings."""

    def handle(number: int, frame: FrameType | None) -> None:
        stop.request(number)

    before = {number: signal.signal(number, handle) for number in HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def starting(
    plan: Plan, folder: Path, runs: Sequence[Run], environment: Mapping[str, str]
) -> Iterator[Start]:
    """How trainings start: as forks of a warm parent, where that is safe and worth it. macOS's
    libraries and CUDA do not work in a fork, and a single run is started as fast by itself.
    """
    if sys.platform != "linux" or "CUDA_VISIBLE_DEVICES" in environment or len(runs) < 2:
        yield processes.start
        return
    modules: Sequence[str] = MODULE_IMPORTS
    arguments: list[str] = []
    if not plan.module:
        first = runs[0].cell
        modules, arguments = RECIPE_IMPORTS, plan.fit_arguments(first, next(iter(first.recipes)))
    parent = WarmParent(modules, arguments, inherited(folder.name, environment))
    parent.launch()  # by this thread: Linux ends the process with the thread that started it
    try:
        yield parent.start
    finally:
        parent.close()
