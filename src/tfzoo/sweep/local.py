"""Runs of a sweep on this machine, some at a time, each with its own cores or devices."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from tfzoo.sweep.cell import Notify, Stop, execute
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.resources import slots, warn_of_other_threads
from tfzoo.sweep.state import Run, Status
from tfzoo.terminal import notify

HANDLED = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)
]
"""The signals that stop a sweep; Windows has no SIGUSR1."""


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

    def one(run: Run) -> Status | None:
        if stop.code:
            return None
        slot = free.get()
        try:
            return execute(run, plan, on_change=on_change, environment=slot, stop=stop)
        finally:
            free.put(slot)

    with signals(stop), ThreadPoolExecutor(jobs) as pool:
        announced = False
        waiting: set[Future[Any]] = {pool.submit(one, run) for run in runs}
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
    return stop.code


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
