"""The runs of a sweep on this machine: some at a time, each with its share of cores or its devices."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from tfzoo.sweep.cell import Stop, Told, execute
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.state import Run, Status
from tfzoo.terminal import notify

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


def run(plan: Plan, folder: Path, runs: Sequence[Run], jobs: int, told: Told) -> int:
    """Bring runs to their end, ``jobs`` at a time; ``told`` is called at each change.

    Returns 0, or the exit code of the signal that stopped it: 130 after Ctrl-C, 75 after SIGTERM.
    The runs under way then end with a checkpoint; at a second signal at once.
    """
    stop, free = Stop(), SimpleQueue[dict[str, str]]()
    for place in places(plan, jobs):
        free.put(place)

    def one(run: Run) -> Status | None:
        if stop.code:
            return None
        place = free.get()
        try:
            return execute(run, plan, told=told, environment=place, stop=stop)
        finally:
            free.put(place)

    with signals(stop), ThreadPoolExecutor(jobs) as pool:
        said = False
        waiting: set[Future[Any]] = {pool.submit(one, run) for run in runs}
        try:
            while waiting:
                if stop.code and stop.children and not said:
                    said = True
                    notify(
                        "stopping: what is running ends with a checkpoint; at once at another Ctrl-C"
                    )
                done, waiting = wait(
                    waiting, timeout=1, return_when=FIRST_COMPLETED
                )  # a moment, so that signals are taken
                for future in done:
                    future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop.ask(signal.SIGTERM)
            raise
    return stop.code


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Hand signals on to the runs."""

    def arrived(number: int, frame: FrameType | None) -> None:
        stop.ask(number)

    before = {number: signal.signal(number, arrived) for number in NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def places(plan: Plan, jobs: int) -> list[dict[str, str]]:
    """What the environment of each job says: threads, and where there are accelerators those that
    are its own.
    """
    threads = str(plan.threads or max(1, cores() // jobs))
    common = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    devices, each = visible(), plan.devices or 1
    if not devices:
        return [common] * jobs
    groups = [
        devices[start : start + each] for start in range(0, len(devices) - each + 1, each)
    ] or [devices]
    return [
        {**common, "CUDA_VISIBLE_DEVICES": ",".join(groups[job % len(groups)])}
        for job in range(jobs)
    ]


def visible(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The accelerators that this process may use, by name."""
    import torch

    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    return [str(index) for index in range(torch.cuda.device_count())]


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
