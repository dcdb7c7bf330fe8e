"""``summary.json``: the results of each command on a run, one section per command."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun
from tfzoo.runs import bounds, config
from tfzoo.runs.files import replace_text

FILE = "summary.json"
PACKAGES = ("tfzoo", "torch", "lightning", "torchmetrics", "tokenizers", "sacrebleu")


def write(folder: Path, command: str, section: Mapping[str, Any]) -> None:
    """Write the section of a command into a run's summary; other sections stay as they are. NaN and
    infinities become null, objects that JSON does not have strings.
    """
    path = folder / FILE
    plain = json.loads(json.dumps(dict(section), default=str), parse_constant=lambda _: None)
    summary = {**read(folder), command: plain}
    replace_text(path, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")


def read(folder: Path) -> dict[str, Any]:
    """The sections of a run's summary; none where the file is missing or damaged."""
    try:
        found = bounds.json_of(folder / FILE)
    except BadRun:
        return {}
    sections = found.items() if isinstance(found, dict) else ()
    return {name: section for name, section in sections if isinstance(section, dict)}


def attempts(folder: Path) -> list[dict[str, Any]]:
    """The attempts in a run's summary. One that is still recorded as running was killed."""
    found = read(folder).get("fit", {}).get("attempts", [])
    return [
        {**one, "ended": "killed" if one.get("ended") == "running" else one.get("ended")}
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict)
    ]


def is_complete(folder: Path) -> bool:
    """Whether ``fit`` trained to the end and, on built-in data, tested."""
    found = read(folder)
    if found.get("fit", {}).get("ended") != "completed":
        return False
    return "test" in found or not (config.read(folder).get("data") or {}).get("dataset")


def scores(folder: Path, checkpoint: str) -> dict[str, float]:
    """The scores in a run's summary that are of the checkpoint of this file name: the best one of
    validation, and those of ``tfzoo validate`` and ``test``.
    """
    found: dict[str, Any] = {}
    for section in read(folder).values():
        scores = section.get("best" if "attempts" in section else "scores")
        if Path(str(section.get("checkpoint"))).name == checkpoint and isinstance(scores, dict):
            found |= scores
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not name.endswith("/items")
    }


def environment(args: list[str]) -> dict[str, Any]:
    """Command line, versions, hardware and host name: what results depend on besides the recipe."""
    return {
        "command": " ".join(["tfzoo", *map(shlex.quote, args)]),
        "versions": versions(),
        "hardware": hardware(),
        "hostname": platform.node(),
    }


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """Processor, cores that this process may use, threads, GPUs."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, Any] = {"cpu": processor(), "cores": cores, "threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        found["gpus"] = [
            torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
        ]
    return found


def processor() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def peak_memory() -> dict[str, int]:
    """Peak memory in bytes: of this process, and allocated on the GPU where there is one."""
    import torch

    found = {}
    try:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        found["process"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    except ImportError:  # not on Windows
        pass
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.max_memory_allocated()
    return found
