"""The runs of a sweep as tasks of a Ray cluster. What a lost machine was working on runs again
elsewhere, from its last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from tfzoo import _adapters
from tfzoo.errors import BadRun
from tfzoo.sweep import job, state
from tfzoo.sweep.cell import Stop, Told
from tfzoo.sweep.job import PATIENCE, Ended, Job, RetryPolicy, fail, gpus, library, threads
from tfzoo.sweep.local import signals
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.state import Run
from tfzoo.terminal import notify

LOOK = 2.0
"""Seconds between two looks at the folder."""
OUT_OF_MEMORY = 137
"""The exit code of a run that Ray ended for want of memory."""
ANSWER = 120.0
"""Seconds that a machine has to say whether it sees the folder: Ray starts a process there."""


def run(
    plan: Plan,
    folder: Path,
    runs: Sequence[Run],
    jobs: int | None,
    told: Told,
    address: str | None = None,
) -> int:
    """Bring runs to their end on the cluster at ``address`` (none: that of ``RAY_ADDRESS``, else
    this machine alone), ``jobs`` at a time (none: as many as it has room for).

    Returns as :func:`tfzoo.sweep.local.run` does; on a signal the runs end with a checkpoint.

    Raises:
        BadOption: Ray is not installed.
        BadRun: no cluster there, or a machine of it does not see the folder.
    """
    ray = library("ray", "ray")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError) as error:
        raise BadRun(f"no Ray cluster at {address}: {str(error).splitlines()[0]}") from None
    _adapters.silence_ray_workers(ray)  # it would print every worker's errors by the page
    try:
        visible(ray, folder, threads(plan), gpus(plan))
        return Tasks(ray, plan, folder, told).finish(runs, jobs or len(runs))
    finally:
        ray.shutdown()


class Tasks:
    """The tasks under way."""

    def __init__(self, ray: Any, plan: Plan, folder: Path, told: Told) -> None:
        self.ray, self.folder, self.told = ray, folder, told
        # Ray would repeat what it ended itself for want of memory, for ever; which ones run again
        # is decided here
        self.remote = ray.remote(num_cpus=threads(plan), num_gpus=gpus(plan), max_retries=0)(
            job.work
        )
        self.waiting: dict[Any, Run] = {}
        self.seen: set[int] = set()
        self.account = RetryPolicy()

    def finish(self, runs: Sequence[Run], most: int) -> int:
        """Run all, at most so many at a time; returns the exit code of a signal, else 0."""
        stop, queue = Stop(), list(runs)
        with signals(stop):
            while (queue or self.waiting) and not stop.code:
                while queue and len(self.waiting) < most:
                    self.begin(queue.pop(0))
                queue += [run for run in self.look() if not self.settled(run)]
        self.cancel()
        return stop.code

    def begin(self, run: Run) -> None:
        self.waiting[self.remote.remote(Job(self.folder, job.words(self.folder, run)))] = run

    def look(self) -> list[Run]:
        """Wait a moment; returns the runs whose tasks have ended."""
        done, _ = self.ray.wait(list(self.waiting), num_returns=len(self.waiting), timeout=LOOK)
        for run in self.waiting.values():
            if run.number not in self.seen and state.status(run) == "running":
                self.seen.add(run.number)
                self.told(run, "running")
        self.ended = {self.waiting[ref].number: self.outcome(ref) for ref in done}
        return [self.waiting.pop(ref) for ref in done]

    def settled(self, run: Run) -> bool:
        """Whether a run whose task ended is over; what became of it is told."""
        ended = self.ended[run.number]
        self.seen.discard(run.number)
        if ended and ended.code == OUT_OF_MEMORY:
            fail(run, f"out of memory: {ended.said}", ended.code)
        found = self.account.settle(run, ended)
        if ended is None and found is None:
            notify(f"{run.name}: its machine was lost; it runs again elsewhere")
            time.sleep(LOOK)  # where all are lost, new ones are so too
        self.told(run, found or state.status(run))
        return found is not None

    def outcome(self, ref: Any) -> Ended | None:
        """How a task ended; None where its machine was lost.

        Raises:
            BadRun: it could not begin at all.
        """
        errors = self.ray.exceptions
        try:
            ended: Ended = self.ray.get(ref)
        except errors.OutOfMemoryError as error:
            return Ended(
                "", OUT_OF_MEMORY, f"Ray ended it, as its machine had none left: {first(error)}"
            )
        except errors.RayTaskError as error:
            raise BadRun(f"a task of Ray failed: {str(error).strip().splitlines()[-1]}") from None
        except errors.RayError:
            return None
        return ended

    def cancel(self) -> None:
        """End what is under way, with a checkpoint."""
        for ref in self.waiting:
            self.ray.cancel(ref)
        if self.waiting:
            self.ray.wait(list(self.waiting), num_returns=len(self.waiting), timeout=PATIENCE)


def visible(ray: Any, folder: Path, cores: int, gpus: int) -> None:
    """See that each machine that can take a run sees the folder.

    Raises:
        BadRun: one does not; it is named.
    """
    probe, word = folder / f".probe-{uuid4().hex}", uuid4().hex
    probe.write_text(word)
    near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    asks = ray.remote(num_cpus=0, max_retries=0)(job.read)
    try:
        fit = [node for node in ray.nodes() if node["Alive"] and room(node, cores, gpus)]
        if not fit:
            notify(
                f"Ray: no machine has {cores} cores{f' and {gpus} GPUs' if gpus else ''} yet; waiting for one"
            )
        asked = [
            (node, asks.options(scheduling_strategy=near(node["NodeID"], soft=False)).remote(probe))
            for node in fit
        ]
        end = time.monotonic() + ANSWER
        for node, ref in asked:
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
            try:
                found = ray.get(ref, timeout=max(1.0, end - time.monotonic()))
            except Exception as error:  # no tfzoo there, another Python, no answer
                raise BadRun(f"Ray's machine {name} cannot run tfzoo: {first(error)}") from None
            if found != word:
                raise BadRun(
                    f"Ray's machine {name} does not see {folder}: name a folder that all machines share with --run"
                )
    finally:
        probe.unlink(missing_ok=True)


def room(node: dict[str, Any], cores: int, gpus: int) -> bool:
    """Whether a machine can take a run at all."""
    return bool(
        node["Resources"].get("CPU", 0) >= cores and node["Resources"].get("GPU", 0) >= gpus
    )


def first(error: Exception) -> str:
    """An error of Ray in one line; its last one names the cause, where it is somebody else's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if "Traceback" in str(error) else (lines or [type(error).__name__])[0]
