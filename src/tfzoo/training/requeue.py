"""A job of SLURM that is about to reach its time limit is requeued."""

from __future__ import annotations

import os
import subprocess

from lightning.fabric.plugins.environments.slurm import SLURMEnvironment


def requeue() -> str:
    """Ask SLURM to requeue this job. Returns a message; ``""`` where this is no job of srun."""
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job or not SLURMEnvironment.detect():
        return ""
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    command = ["scontrol", "requeue", job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"job {job} could not be requeued: {done.stderr.strip()[:200]}"
    return f"job {job} is requeued"
