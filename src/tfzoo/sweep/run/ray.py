"""The runs of a sweep as tasks of a Ray cluster. A run whose machine is lost resumes elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfzoo.base import adapters
from tfzoo.base.loading import require
from tfzoo.errors import BadRun
from tfzoo.sweep.plan.sweep_file import Plan
from tfzoo.sweep.run.cluster import (
    CHECKPOINT_SECONDS,
    LOST,
    Cluster,
    Ended,
    gpus_per_run,
    run_job,
)
from tfzoo.sweep.run.local import threads_per_run
from tfzoo.sweep.run.state import Notify, Run, record_failure


def run(plan: Plan, folder: Path, runs: Sequence[Run], jobs: int | None, on_change: Notify) -> int:
    """Complete runs on the Ray cluster of ``RAY_ADDRESS``, else on this machine, ``jobs`` at a
    time. Without ``jobs`` as many runs start as the cluster has room for. Returns as
    :func:`tfzoo.sweep.run.local.run` does; after a signal the runs end with a checkpoint.
    """
    ray = require("ray", "ray")
    try:
        ray.init(log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError) as error:
        raise BadRun(f"no Ray cluster: {str(error).splitlines()[0]}") from None
    adapters.silence_ray_workers(ray)  # it would print every worker's errors by the page
    tasks = Tasks(ray, plan, folder, on_change)
    try:
        return tasks.finish(runs, jobs or len(runs))
    finally:
        tasks.cancel()
        ray.shutdown()


class Tasks(Cluster):
    """The tasks that are queued or running."""

    def __init__(self, ray: Any, plan: Plan, folder: Path, on_change: Notify) -> None:
        super().__init__(plan, folder, on_change)
        self.ray = ray
        # No retries by Ray: it would repeat a run that is too large for its machine for ever.
        self.remote = ray.remote(
            num_cpus=threads_per_run(plan), num_gpus=gpus_per_run(plan), max_retries=0
        )(run_job)

    def submit(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self.waiting[run.number] = run, self.remote.remote(self.job(run))

    def ended(self, run: Run, job: Any) -> Ended | None:
        errors = self.ray.exceptions
        if not self.ray.wait([job], timeout=0)[0]:
            return None
        try:
            ended: Ended = self.ray.get(job)
        except errors.OutOfMemoryError as error:
            why = " ".join(str(error).split())[:300]
            record_failure(run.folder, f"out of memory: Ray ended it: {why}")
            return Ended(1)
        except errors.RayTaskError as error:
            raise BadRun(f"a task of Ray failed: {str(error).strip().splitlines()[-1]}") from None
        except errors.RayError:
            return Ended(LOST)
        return ended

    def cancel(self) -> None:
        """Stop all tasks; their runs end with a checkpoint."""
        tasks = [task for _, task in self.waiting.values()]
        for task in tasks:
            self.ray.cancel(task)
        if tasks:
            self.ray.wait(tasks, num_returns=len(tasks), timeout=CHECKPOINT_SECONDS)
