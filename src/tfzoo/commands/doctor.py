"""tfzoo doctor: versions, devices, and extras that are missing."""

from __future__ import annotations

import platform
import sys
from argparse import Namespace
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

from tfzoo import __version__
from tfzoo.base.terminal import print_result, print_table
from tfzoo.commands.argument_parser import CommandParser


def make_parser() -> CommandParser:
    """The arguments of the command."""
    return CommandParser(
        "doctor",
        "Print versions, devices and extras, and how to install what is missing. "
        "Exit code 1 if a package that tfzoo requires is missing or of another version.",
    )


def run(given: Namespace) -> int:
    """Print the report. Returns 1 if a required package is not there."""
    wrong = missing(required())
    rows = [("Python", f"{platform.python_version()}  {sys.executable}"), ("tfzoo", __version__)]
    rows += [(name, installed(name) or "not installed") for name in ("torch", "lightning")]
    rows.append(("devices", devices()))
    for extra in metadata("tfzoo").get_all("Provides-Extra", []):
        absent = ", ".join(one.name for one in missing(required(extra)))
        needed = f"pip install 'tfzoo[{extra}]' adds {absent}"
        rows.append((f"extra {extra}", needed if absent else "installed"))
    print_table(rows, f"tfzoo doctor: {platform.platform()}")
    for one in wrong:
        found = installed(one.name) or "not installed"
        print_result(f"! {one.name} {found}: pip install '{one.name}{one.specifier}'")
    return int(bool(wrong))


def required(extra: str = "", package: str = "tfzoo") -> list[Requirement]:
    """What a package requires, or what one of its extras adds, also by extras of others."""
    every = [Requirement(text) for text in requires(package) or []]
    if not extra:
        return [one for one in every if one.marker is None]
    found = [one for one in every if one.marker and one.marker.evaluate({"extra": extra})]
    inner = [one for one in found if one.extras and installed(one.name)]
    return found + [
        deep for one in inner for name in one.extras for deep in required(name, one.name)
    ]


def missing(wanted: list[Requirement]) -> list[Requirement]:
    """Those that are not installed in a version that fits."""
    return [
        one
        for one in wanted
        if not one.specifier.contains(installed(one.name) or "0", prereleases=True)
        or installed(one.name) is None
    ]


def installed(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def devices() -> str:
    """Threads and GPUs, as PyTorch sees them."""
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    mps = ["Apple GPU"] if torch.backends.mps.is_available() else []
    return ", ".join([f"{torch.get_num_threads()} CPU threads", *gpus, *mps])
