"""CPU threads and accelerators of each run of a sweep."""

from __future__ import annotations

import os

from tfzoo.runs.machine import available_cores
from tfzoo.sweep.plan.sweep_file import Plan


def threads_per_run(plan: Plan, default: int = 1) -> int:
    """CPU threads of each run: ``threads`` of the sweep file, else ``OMP_NUM_THREADS``, else
    ``default``.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return plan.threads or (int(given) if given.isdecimal() else 0) or default


def gpus_per_run(plan: Plan) -> int:
    """GPUs that a run requests from a cluster: ``devices``, or 0 if any cell trains on the CPU."""
    recipes = [recipe for cell in plan.cells for recipe in cell.recipes.values()]
    on_cpu = any(recipe["trainer"].get("accelerator") == "cpu" for recipe in recipes)
    return 0 if on_cpu else plan.devices or 0


def slots(plan: Plan, jobs: int) -> list[dict[str, str]]:
    """Environment variables of each of ``jobs`` simultaneous runs: its threads and, if there are
    accelerators, its devices.
    """
    threads = str(threads_per_run(plan, max(1, available_cores() // jobs)))
    common = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    devices, each = visible_devices(), plan.devices or 1
    if not devices:
        return [common] * jobs
    groups = [
        devices[start : start + each] for start in range(0, len(devices) - each + 1, each)
    ] or [devices]
    return [
        {**common, "CUDA_VISIBLE_DEVICES": ",".join(groups[job % len(groups)])}
        for job in range(jobs)
    ]


def visible_devices() -> list[str]:
    """Names of the CUDA devices that this process may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]
