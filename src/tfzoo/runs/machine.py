"""What results depend on besides the recipe (versions, hardware), and the memory that was used."""

import os
import platform
import shlex
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tfzoo

PACKAGES = ("torch", "lightning", "torchmetrics", "tokenizers", "sacrebleu")


def environment(command: list[str]) -> dict[str, Any]:
    """Command line, versions, hardware and host name: what results depend on besides the recipe."""
    return {
        "command": " ".join(["tfzoo", *map(shlex.quote, command)]),
        "versions": versions(),
        "hardware": hardware(),
        "hostname": platform.node(),
    }


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    installed = {package: version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "tfzoo": tfzoo.__version__, **installed}


def hardware() -> dict[str, Any]:
    """Processor, cores that this process may use, threads, GPUs."""
    import torch

    names = gpus()
    return {
        "cpu": processor(),
        "cores": available_cores(),
        "threads": torch.get_num_threads(),
        **({"gpus": names} if names else {}),
    }


def gpus() -> list[str]:
    """The names of the GPUs that PyTorch can use; it counts those with too old a driver, too."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.cuda.get_device_name(index) for index in range(count)]


def available_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())


def peak_memory() -> dict[str, int]:
    """Peak memory in bytes: of this process, and allocated on the GPU where there is one."""
    import torch

    peaks = {}
    try:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peaks["process"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    except ImportError:  # not on Windows
        pass
    if torch.cuda.is_available():
        peaks["gpu"] = torch.cuda.max_memory_allocated()
    return peaks
