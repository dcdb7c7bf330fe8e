"""The runs of a sweep as an array of SLURM jobs, through submitit. Jobs go on without us: a sweep
that is started again finds them.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfzoo.errors import BadOption, BadRun
from tfzoo.sweep import job, state
from tfzoo.sweep.cell import Stop, Told
from tfzoo.sweep.job import Ended, Job, RetryPolicy, gpus, library, parts, threads
from tfzoo.sweep.local import signals
from tfzoo.sweep.plan import Plan
from tfzoo.sweep.state import Run
from tfzoo.terminal import notify

FILE = "slurm.json"
"""Which job works on which run."""
LOGS = "slurm"
"""Where submitit keeps what it sends, and what jobs print."""
LOOK = 2.0
"""Seconds between two looks at the folder."""
HOURS = 4
"""Of a job without ``budget.time``: one that needs more is started again and goes on from its
checkpoint.
"""
START = 600
"""Seconds that a job has beside ``budget.time``, to start, validate and test."""
LARGEST = 1000
"""Jobs of an array: SLURM takes 1001, if nobody changed that."""


def run(
    plan: Plan,
    folder: Path,
    runs: Sequence[Run],
    jobs: int | None,
    told: Told,
    cluster: str = "slurm",
) -> int:
    """Bring runs to their end as jobs, at most ``jobs`` at a time (none: as many as SLURM starts).
    A run whose job is queued or running gets no second one.

    Returns 0, or the exit code of the signal that ended the watching: the jobs go on. ``cluster``
    is submitit's name for who runs them.

    Raises:
        BadOption: submitit or SLURM is not there.
        BadRun: SLURM refused the jobs.
    """
    submitit = library("slurm", "submitit")
    if cluster == "slurm" and not (shutil.which("sbatch") and shutil.which("srun")):
        raise BadOption(
            "--engine slurm needs SLURM's commands (sbatch, srun, sacct), which are not here: start it where you submit jobs"
        )
    array = Array(submitit, plan, folder, told, cluster, jobs)
    array.find(runs)
    array.submit([run for run in runs if run.number not in array.jobs])
    return array.watch()


class Array:
    """The jobs under way."""

    def __init__(
        self, submitit: Any, plan: Plan, folder: Path, told: Told, cluster: str, jobs: int | None
    ) -> None:
        self.submitit, self.folder, self.told, self.cluster = submitit, folder, told, cluster
        self.executor = submitit.AutoExecutor(
            folder / LOGS, cluster=cluster, slurm_max_num_timeout=1000
        )
        cores = threads(plan)
        self.executor.update_parameters(
            name=f"tfzoo-{folder.name}",
            timeout_min=minutes(plan),
            nodes=1,
            tasks_per_node=1,
            cpus_per_task=cores,
            gpus_per_node=gpus(plan) or None,
            slurm_array_parallelism=jobs or LARGEST,
            slurm_srun_args=[
                f"--cpus-per-task={cores}"
            ],  # since SLURM 22.05 srun does not take it from sbatch
        )
        self.runs: dict[int, Run] = {}
        self.jobs: dict[int, Any] = {}
        self.seen: set[int] = set()
        self.account = RetryPolicy()

    def find(self, runs: Sequence[Run]) -> None:
        """Take up the jobs of an earlier start that are queued or running. One that SLURM knows
        nothing of counts as over: should it live after all, the lock of its run keeps a second one
        out.
        """
        known = recorded(self.folder)
        if self.cluster != "slurm" or not known:
            return
        job = self.submitit.SlurmJob
        found = {
            run.number: job(self.folder / LOGS, known[key])
            for run in runs
            if (key := self.key(run)) in known
        }
        job.watcher.update()  # asks for all at once
        self.jobs = {number: one for number, one in found.items() if alive(one)}
        self.runs = {run.number: run for run in runs if run.number in self.jobs}
        if self.jobs:
            notify(f"SLURM: found {len(self.jobs)} runs that are queued or running")

    def submit(self, runs: Sequence[Run]) -> None:
        """Send runs to SLURM, and write down their jobs."""
        for part in parts(runs, LARGEST):
            try:
                jobs = self.executor.submit_array(
                    [Job(self.folder, job.words(self.folder, run)) for run in part]
                )
            except (RuntimeError, OSError) as error:
                lines = [line for line in str(error).splitlines() if line.strip()]
                raise BadRun(
                    f"SLURM did not take the jobs: {lines[-1] if lines else error}"
                ) from None
            for run, submitted in zip(part, jobs, strict=True):
                self.runs[run.number], self.jobs[run.number] = run, submitted
            ids = {
                self.key(run): submitted.job_id for run, submitted in zip(part, jobs, strict=True)
            }
            state.write(
                self.folder / FILE, json.dumps({**recorded(self.folder), **ids}, indent=1) + "\n"
            )
            notify(f"SLURM: {len(part)} runs submitted as {self.names(jobs)}")

    def watch(self) -> int:
        """Wait until all runs are over, or a signal comes."""
        stop = Stop()
        with signals(stop):
            while self.jobs and not stop.code:
                again = [
                    self.runs[number]
                    for number in list(self.jobs)
                    if not self.over(self.runs[number])
                ]
                self.submit(again)
                time.sleep(LOOK if self.jobs else 0)
        if self.jobs:
            names = self.names(self.jobs.values())
            notify(
                f"SLURM: {len(self.jobs)} runs go on without us. To end them: scancel {names}. The same command again watches them"
            )
        return stop.code

    def over(self, run: Run) -> bool:
        """Take note of what became of a run; False where it needs another job."""
        job, found = self.jobs[run.number], state.status(run)
        if found == "running" and run.number not in self.seen:
            self.seen.add(run.number)
            self.told(run, found)
        if found in ("completed", "failed"):
            ended: Ended | None = None
        elif not job.done():
            return True
        elif str(job.state).startswith("CANCELLED"):  # by a person, who wants no other
            notify(f"{run.name}: its job {job.job_id} was cancelled")
            del self.jobs[run.number]
            self.told(run, found)
            return True
        else:
            ended = self.outcome(job)
        del self.jobs[run.number]
        self.seen.discard(run.number)
        settled = self.account.settle(run, ended)
        self.told(run, settled or state.status(run))
        return settled is not None

    def outcome(self, job: Any) -> Ended | None:
        """How a job ended; None where its machine was lost."""
        if job.state == "NODE_FAIL":
            return None
        try:
            ended: Ended = job.result()
        except self.submitit.core.utils.UncompletedJobError:
            return Ended(
                "SLURM", 1, f"job {job.job_id} ended as {job.state}; its output: {job.paths.stderr}"
            )
        return ended

    def key(self, run: Run) -> str:
        return run.folder.relative_to(self.folder).as_posix()

    def names(self, jobs: Any) -> str:
        """Jobs as ``scancel`` takes them: an array by its first number."""
        return " ".join(sorted({str(job.job_id).partition("_")[0] for job in jobs}))


def alive(job: Any) -> bool:
    """Whether SLURM knows a job that is not over, as far as it was asked."""
    return not job.done() and job.watcher.get_state(job.job_id, "cache") != "UNKNOWN"


def minutes(plan: Plan) -> int:
    """The time that a job asks for."""
    seconds = plan.budget.seconds
    return HOURS * 60 if math.isinf(seconds) else math.ceil((seconds + START) / 60)


def recorded(folder: Path) -> dict[str, str]:
    """The job of each run that was sent to SLURM."""
    try:
        found = json.loads((folder / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
