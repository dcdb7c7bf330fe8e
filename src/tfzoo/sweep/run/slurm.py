"""The runs of a sweep as an array of SLURM jobs, through submitit. The jobs continue when the sweep
is interrupted; a sweep that is started again finds them.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfzoo.base.bounded_files import object_of
from tfzoo.base.terminal import notify
from tfzoo.errors import BadOption, BadRun
from tfzoo.runs.files import replace_text
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run import job, state
from tfzoo.sweep.run.job import POLL_SECONDS, Ended, Job, RetryPolicy, load_library
from tfzoo.sweep.run.local import signals
from tfzoo.sweep.run.outcome import OVER
from tfzoo.sweep.run.process import Stop
from tfzoo.sweep.run.resources import gpus_per_run, threads_per_run, warn_of_other_threads
from tfzoo.sweep.run.state import Notify, Run

FILE = "slurm.json"
"""The job id of each run."""
LOGS = "slurm"
"""The folder of submitit's files and of what jobs print."""
DEFAULT_HOURS = 4
"""Time limit of a job without ``budget.time``. A run that needs more is submitted again and resumes
from its checkpoint.
"""
EXTRA_SECONDS = 600
"""Added to ``budget.time`` for start-up, validation and test."""
MAX_ARRAY = 1000
"""Jobs per array; SLURM's default limit is 1001."""


def run(
    plan: Plan,
    folder: Path,
    runs: Sequence[Run],
    jobs: int | None,
    on_change: Notify,
    cluster: str = "slurm",
) -> int:
    """Complete runs as SLURM jobs, at most ``jobs`` at a time (None: as many as SLURM starts).
    A run whose job is queued or running does not get a second one.

    Returns 0, or the exit code of the signal that interrupted the waiting; the jobs continue.
    ``cluster`` is submitit's name of an executor.

    Raises:
        BadOption: submitit or SLURM is not installed.
        BadRun: SLURM refused the jobs.
    """
    submitit = load_library("slurm", "submitit")
    if cluster == "slurm" and not (shutil.which("sbatch") and shutil.which("srun")):
        raise BadOption(
            "--engine slurm needs SLURM's commands (sbatch, srun, sacct), which are not on this "
            "machine: start the sweep where you submit jobs"
        )
    array = Array(submitit, plan, folder, on_change, cluster, jobs)
    warn_of_other_threads(plan, folder, threads_per_run(plan))
    array.find(runs)
    array.submit([run for run in runs if run.number not in array.jobs])
    return array.watch()


class Array:
    """The jobs that are queued or running."""

    def __init__(
        self,
        submitit: Any,
        plan: Plan,
        folder: Path,
        on_change: Notify,
        cluster: str,
        jobs: int | None,
    ) -> None:
        self.submitit, self.folder, self.cluster = submitit, folder, cluster
        self.on_change, self.trust = on_change, plan.trust
        self.executor = submitit.AutoExecutor(
            folder / LOGS, cluster=cluster, slurm_max_num_timeout=1000
        )
        cores = threads_per_run(plan)
        self.executor.update_parameters(
            name=f"tfzoo-{folder.name}",
            timeout_min=minutes(plan),
            nodes=1,
            tasks_per_node=1,
            cpus_per_task=cores,
            gpus_per_node=gpus_per_run(plan) or None,
            slurm_array_parallelism=jobs or MAX_ARRAY,
            # Since SLURM 22.05 srun does not take it from sbatch.
            slurm_srun_args=[f"--cpus-per-task={cores}"],
        )
        self.runs: dict[int, Run] = {}
        self.jobs: dict[int, Any] = {}
        self.seen: set[int] = set()
        self.retry = RetryPolicy()

    def find(self, runs: Sequence[Run]) -> None:
        """Find the jobs of an earlier start that are queued or running.

        A job that SLURM does not know counts as over. If it runs nevertheless, the lock in the
        run's folder keeps a second one from training.
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
        """Submit runs and record their job ids."""
        for start in range(0, len(runs), MAX_ARRAY):
            part = runs[start : start + MAX_ARRAY]
            try:
                jobs = self.executor.submit_array(
                    [
                        Job(self.folder, job.sweep_arguments(self.folder, run, self.trust))
                        for run in part
                    ]
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
            known = {**recorded(self.folder), **ids}
            replace_text(self.folder / FILE, json.dumps(known, indent=1) + "\n")
            notify(f"SLURM: {len(part)} runs submitted as {self.names(jobs)}")

    def watch(self) -> int:
        """Wait until all runs are over, or a signal comes.

        Raises:
            BadRun: a machine does not see the folder; the other jobs continue.
        """
        stop = Stop()
        with signals(stop):
            while self.jobs and not stop.code:
                runs = [self.runs[number] for number in self.jobs]
                self.submit([run for run in runs if not self.over(run)])
                time.sleep(POLL_SECONDS if self.jobs else 0)
        if self.jobs:
            names = self.names(self.jobs.values())
            notify(
                f"SLURM: {len(self.jobs)} runs continue. To end them: scancel {names}. "
                "The same command again waits for them"
            )
        return stop.code

    def over(self, run: Run) -> bool:
        """Update the status of a run; False if it needs another job."""
        job, found = self.jobs[run.number], state.status(run)
        if found == "running" and run.number not in self.seen:
            self.seen.add(run.number)
            self.on_change(run, found)
        if found in OVER:
            ended: Ended | None = None
        elif not job.done():
            return True
        elif str(job.state).startswith("CANCELLED"):  # by a person: do not submit again
            notify(f"{run.name}: its job {job.job_id} was cancelled")
            del self.jobs[run.number]
            self.on_change(run, found)
            return True
        else:
            ended = self.outcome(job)
        del self.jobs[run.number]
        self.seen.discard(run.number)
        settled = self.retry.settle(run, ended)
        self.on_change(run, settled or state.status(run))
        return settled is not None

    def outcome(self, job: Any) -> Ended | None:
        """How a job ended; None if its machine was lost."""
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
        """The ids of jobs as ``scancel`` takes them: of an array the array's."""
        return " ".join(sorted({str(job.job_id).partition("_")[0] for job in jobs}))


def alive(job: Any) -> bool:
    """Whether a job is queued or running, by SLURM's last answer."""
    return not job.done() and job.watcher.get_state(job.job_id, "cache") != "UNKNOWN"


def minutes(plan: Plan) -> int:
    """The time limit of a job."""
    seconds = plan.budget.seconds
    return DEFAULT_HOURS * 60 if math.isinf(seconds) else math.ceil((seconds + EXTRA_SECONDS) / 60)


def recorded(folder: Path) -> dict[str, str]:
    """The recorded job id of each run, by its folder."""
    return object_of(folder / FILE)
