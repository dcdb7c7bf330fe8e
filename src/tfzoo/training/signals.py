"""A signal ends training after a step, with a checkpoint; a second Ctrl-C ends it at once. A job of
SLURM that is about to reach its time limit is requeued.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

import lightning.pytorch as L
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment

from tfzoo.base.signals import ARRIVALS, STOPPED
from tfzoo.training.last_checkpoint import LastCheckpoint, step_is_over


class Signals(L.Callback):
    """Ends training after a signal. ``code`` is the exit code that all processes agreed on, 0 while
    training goes on.

    After Ctrl-C, training ends as after its last step, with a validation. After SIGTERM or SIGUSR1,
    which give little time, it ends with a checkpoint alone. A signal may reach one process or all
    of them, so they agree at the end of each step. A step of several accumulated batches ends with
    the last of them.
    """

    def __init__(self, last: LastCheckpoint) -> None:
        self.last = last
        self.code = 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        ARRIVALS.install()  # after Lightning's own, which would not agree with other processes
        ARRIVALS.held = True

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        ARRIVALS.install()

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if not step_is_over(trainer, batch_idx):
            return
        self.code = self.last.processes.maximum(ARRIVALS.code)
        if self.code == 0:
            return
        self.last.save(trainer)
        if self.code == STOPPED:
            raise SystemExit(STOPPED)
        self.last.stop(trainer)


def requeue() -> str:
    """Ask SLURM to requeue this job. Returns a message; ``""`` where this is no job of srun."""
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job or not SLURMEnvironment.detect():
        return ""
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    try:
        done = subprocess.run(
            ["scontrol", "requeue", job], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"job {job} could not be requeued: {error}"
    return (
        f"job {job} is requeued"
        if not done.returncode
        else f"job {job} could not be requeued: {done.stderr.strip()[:200]}"
    )
