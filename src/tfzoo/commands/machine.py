"""tfzoo doctor: what this machine has."""

import platform
import sys
from argparse import Namespace
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

from tfzoo import __version__
from tfzoo.base import cache
from tfzoo.base.terminal import print_table
from tfzoo.base.values import readable
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.runs.machine import gpus


def doctor_parser() -> CommandParser:
    """The arguments of the command."""
    return CommandParser(
        "doctor",
        doctor,
        "Print versions, devices, the cache, and how to install extras that are missing.",
    )


def doctor(given: Namespace) -> int:
    """Print the report."""
    rows = [("Python", f"{platform.python_version()}  {sys.executable}"), ("tfzoo", __version__)]
    rows += [(name, installed(name) or "not installed") for name in ("torch", "lightning", "wandb")]
    rows.append(("devices", devices()))
    rows.append(("cache", f"{cache.folder() / cache.SHELF}  {readable(cache.size())}"))
    for extra in metadata("tfzoo").get_all("Provides-Extra", []):
        absent = ", ".join(missing(extra))
        needed = f"pip install 'tfzoo[{extra}]' adds {absent}"
        rows.append((f"extra {extra}", needed if absent else "installed"))
    print_table(rows, f"tfzoo doctor: {platform.platform()}")
    return 0


def missing(extra: str) -> list[str]:
    """The packages that an extra adds and that are not installed."""
    every = [Requirement(text) for text in requires("tfzoo") or []]
    added = [one.name for one in every if one.marker and one.marker.evaluate({"extra": extra})]
    return [name for name in added if not installed(name)]


def installed(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def devices() -> str:
    """Threads and GPUs, as PyTorch sees them."""
    import torch

    mps = ["Apple GPU"] if torch.backends.mps.is_available() else []
    return ", ".join([f"{torch.get_num_threads()} CPU threads", *gpus(), *mps])
