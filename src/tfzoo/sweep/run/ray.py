"""The runs of a sweep as tasks of a Ray cluster. A run whose machine is lost resumes elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfzoo.base import adapters
from tfzoo.base.terminal import notify
from tfzoo.errors import BadRun
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import job, state
from tfzoo.sweep.run.job import (
    CHECKPOINT_SECONDS,
    POLL_SECONDS,
    Ended,
    Job,
    RetryPolicy,
    load_library,
)
from tfzoo.sweep.run.local import signals
from tfzoo.sweep.run.outcome import record_failure
from tfzoo.sweep.run.process import Stop
from tfzoo.sweep.run.resources import gpus_per_run, threads_per_run, warn_of_other_threads
from tfzoo.sweep.run.state import Notify, Run

OUT_OF_MEMORY = 137
"""The exit code recorded for a run that Ray ended because its machine was out of memory."""


def run(
    plan: Plan,
    folder: Path,
    runs: Sequence[Run],
    jobs: int | None,
    on_change: Notify,
    address: str | None = None,
) -> int:
    """Complete runs on the Ray cluster at ``address``, ``jobs`` at a time.

    Without ``address`` the cluster is that of ``RAY_ADDRESS``, else this machine. Without ``jobs``
    as many runs start as the cluster has room for. Returns as :func:`tfzoo.sweep.run.local.run`
    does; after a signal the runs end with a checkpoint.

    Raises:
        BadOption: Ray is not installed.
        BadRun: there is no cluster, or a machine of it does not see the folder.
    """
    ray = load_library("ray", "ray")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError) as error:
        raise BadRun(f"no Ray cluster at {address}: {str(error).splitlines()[0]}") from None
    adapters.silence_ray_workers(ray)  # it would print every worker's errors by the page
    try:
        warn_of_other_threads(plan, folder, threads_per_run(plan))
        return Tasks(ray, plan, folder, on_change).finish(runs, jobs or len(runs))
    finally:
        ray.shutdown()


class Tasks:
    """The tasks that are queued or running."""

    def __init__(self, ray: Any, plan: Plan, folder: Path, on_change: Notify) -> None:
        self.ray, self.folder, self.on_change = ray, folder, on_change
        self.trust = plan.trust
        # No retries by Ray: it would repeat a run that is too large for its machine for ever.
        # RetryPolicy decides what runs again.
        self.remote = ray.remote(
            num_cpus=threads_per_run(plan), num_gpus=gpus_per_run(plan), max_retries=0
        )(job.run_job)
        self.waiting: dict[Any, Run] = {}
        self.seen: set[int] = set()
        self.retry = RetryPolicy()

    def finish(self, runs: Sequence[Run], most: int) -> int:
        """Complete all, at most ``most`` at a time; returns the exit code of a signal, else 0."""
        stop, queue = Stop(), list(runs)
        try:
            with signals(stop):
                while (queue or self.waiting) and not stop.code:
                    while queue and len(self.waiting) < most:
                        self.submit(queue.pop(0))
                    queue += [run for run, ended in self.poll() if not self.settled(run, ended)]
        finally:
            self.cancel()
        return stop.code

    def submit(self, run: Run) -> None:
        task = Job(self.folder, job.sweep_arguments(self.folder, run, self.trust))
        self.waiting[self.remote.remote(task)] = run

    def poll(self) -> list[tuple[Run, Ended | None]]:
        """Wait up to ``POLL_SECONDS``; returns the runs whose tasks have ended, and how."""
        done, _ = self.ray.wait(
            list(self.waiting), num_returns=len(self.waiting), timeout=POLL_SECONDS
        )
        for run in self.waiting.values():
            if run.number not in self.seen and state.status(run) == "running":
                self.seen.add(run.number)
                self.on_change(run, "running")
        ended = [self.outcome(ref) for ref in done]
        return [(self.waiting.pop(ref), one) for ref, one in zip(done, ended, strict=True)]

    def settled(self, run: Run, ended: Ended | None) -> bool:
        """Whether a run whose task ended is over; reports its status."""
        self.seen.discard(run.number)
        if ended and ended.code == OUT_OF_MEMORY:
            record_failure(run.folder, f"out of memory: {ended.message}")
        found = self.retry.settle(run, ended)
        if ended is None and found is None:
            notify(f"{run.name}: its machine was lost; it runs again on another")
            time.sleep(POLL_SECONDS)  # for the case that all machines are lost
        self.on_change(run, found or state.status(run))
        return found is not None

    def outcome(self, ref: Any) -> Ended | None:
        """How a task ended; None if its machine was lost.

        Raises:
            BadRun: it could not start at all.
        """
        errors = self.ray.exceptions
        try:
            ended: Ended = self.ray.get(ref)
        except errors.OutOfMemoryError as error:
            reason = f"Ray ended it because its machine had none left: {one_line(error)}"
            return Ended("", OUT_OF_MEMORY, reason)
        except errors.RayTaskError as error:
            raise BadRun(f"a task of Ray failed: {str(error).strip().splitlines()[-1]}") from None
        except errors.RayError:
            return None
        return ended

    def cancel(self) -> None:
        """Stop all tasks; their runs end with a checkpoint."""
        for ref in self.waiting:
            self.ray.cancel(ref)
        if self.waiting:
            self.ray.wait(
                list(self.waiting), num_returns=len(self.waiting), timeout=CHECKPOINT_SECONDS
            )


def one_line(error: Exception) -> str:
    """An error of Ray in one line. The last line of a traceback names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if "Traceback" in str(error) else (lines or [type(error).__name__])[0]
