"""The runs of a sweep as an array of SLURM jobs, through submitit. The jobs continue when the sweep
is interrupted; a sweep that is started again finds them.
"""

import json
import math
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tfzoo.base.files import object_of, replace_text
from tfzoo.base.loading import require
from tfzoo.base.terminal import notify
from tfzoo.errors import BadOption, BadRun
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run.cluster import CANCELLED, LOST, Cluster, Ended, gpus_per_run
from tfzoo.sweep.run.local import threads_per_run
from tfzoo.sweep.run.state import Notify, Run

FILE = "slurm.json"
"""The job id of each run, by its name."""
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


def run(plan: Plan, folder: Path, runs: Sequence[Run], jobs: int | None, on_change: Notify) -> int:
    """Complete runs as SLURM jobs, at most ``jobs`` at a time (None: as many as SLURM starts).
    A run whose job is queued or running does not get a second one.

    Returns 0, or the exit code of the signal that interrupted the waiting; the jobs continue.
    """
    submitit = require("submitit", "slurm")
    if not (shutil.which("sbatch") and shutil.which("srun")):
        raise BadOption(
            "--engine slurm needs SLURM's commands (sbatch, srun, sacct), which are not on this "
            "machine: start the sweep where you submit jobs"
        )
    array = Array(submitit, plan, folder, on_change, jobs)
    array.find(runs)
    code = array.finish([one for one in runs if one.number not in array.waiting], len(runs))
    if array.waiting:
        notify(
            f"SLURM: {len(array.waiting)} runs continue. To end them: scancel "
            f"{ids(job for _, job in array.waiting.values())}. The same command again waits for "
            "them"
        )
    return code


class Array(Cluster):
    """The jobs that are queued or running."""

    def __init__(
        self, submitit: Any, plan: Plan, folder: Path, on_change: Notify, jobs: int | None
    ) -> None:
        super().__init__(plan, folder, on_change)
        self.submitit = submitit
        self.executor = submitit.AutoExecutor(
            folder / LOGS, cluster="slurm", slurm_max_num_timeout=1000
        )
        cores, limit = threads_per_run(plan), plan.budget.seconds + EXTRA_SECONDS
        seconds = 3600 * DEFAULT_HOURS if math.isinf(limit) else limit
        self.executor.update_parameters(
            name=f"tfzoo-{folder.name}",
            timeout_min=math.ceil(seconds / 60),
            nodes=1,
            tasks_per_node=1,
            cpus_per_task=cores,
            gpus_per_node=gpus_per_run(plan) or None,
            slurm_array_parallelism=jobs or MAX_ARRAY,
            # Since SLURM 22.05 srun does not take it from sbatch.
            slurm_srun_args=[f"--cpus-per-task={cores}"],
        )

    def find(self, runs: Sequence[Run]) -> None:
        """Find the jobs of an earlier start that are queued or running.

        A job that SLURM does not know counts as over. If it runs nevertheless, the lock in the
        run's folder keeps a second one from training.
        """
        known, job = object_of(self.folder / FILE), self.submitit.SlurmJob
        found = {
            run.number: (run, job(self.folder / LOGS, known[run.name]))
            for run in runs
            if run.name in known
        }
        job.watcher.update()  # asks for all at once
        for number, (run, one) in found.items():
            if not one.done() and job.watcher.get_state(one.job_id, "cache") != "UNKNOWN":
                self.waiting[number] = run, one
        if self.waiting:
            notify(f"SLURM: found {len(self.waiting)} runs that are queued or running")

    def submit(self, runs: Sequence[Run]) -> None:
        """Submit arrays of at most 1,000 jobs, and record their ids."""
        for start in range(0, len(runs), MAX_ARRAY):
            part = runs[start : start + MAX_ARRAY]
            try:
                jobs = self.executor.submit_array([*map(self.job, part)])
            except (RuntimeError, OSError) as error:
                why = str(error).strip().split("\n")[-1]
                raise BadRun(f"SLURM did not take the jobs: {why}") from None
            known = object_of(self.folder / FILE)
            for run, job in zip(part, jobs, strict=True):
                self.waiting[run.number] = run, job
                known[run.name] = job.job_id
            replace_text(self.folder / FILE, json.dumps(known, indent=1) + "\n")
            notify(f"SLURM: {len(part)} runs submitted as {ids(jobs)}")

    def ended(self, run: Run, job: Any) -> Ended | None:
        if not job.done():
            return None
        if str(job.state).startswith("CANCELLED"):  # by a person: do not submit again
            return Ended(CANCELLED)
        if job.state in ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED"):
            return Ended(LOST)
        try:
            ended: Ended = job.result()
        except self.submitit.core.utils.UncompletedJobError:
            said = f"job {job.job_id} ended as {job.state}; its output: {job.paths.stderr}"
            return Ended(1, "SLURM", said)
        return ended


def ids(jobs: Iterable[Any]) -> str:
    """The ids of jobs as ``scancel`` takes them: of an array the array's."""
    return " ".join(sorted({str(job.job_id).partition("_")[0] for job in jobs}))
