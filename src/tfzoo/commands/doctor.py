"""tfzoo doctor: versions, devices, cache, optional packages, and how to mend what is wrong."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import tfzoo
from tfzoo.base import memory
from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_result, print_table
from tfzoo.base.values import readable
from tfzoo.commands.argument_parser import CommandParser

if TYPE_CHECKING:
    from packaging.requirements import Requirement

USED_IF_THERE = ("transformers", "pandas")
"""Packages that work with tfzoo, and that no extra installs."""
FREE = 10**9
"""Free bytes below which the disk of the cache counts as full."""


@dataclass(frozen=True)
class Finding:
    """One line of the report; ``mend`` says what to do if something is wrong."""

    name: str
    value: str
    mend: str = ""


def make_parser() -> CommandParser:
    """The arguments of the command."""
    return CommandParser(
        "doctor",
        "Print versions, devices, cache and optional packages, and how to mend what is wrong. "
        "Exit code 1 if something is wrong.",
    )


def run(given: Namespace) -> int:
    """Print the report. Returns 1 if something is wrong."""
    found = list(findings())
    rows = [(("! " if one.mend else "") + one.name, one.value) for one in found]
    print_table(rows, f"tfzoo doctor: {platform.platform()}")
    wrong = [one for one in found if one.mend]
    for one in wrong:
        print_result(f"! {one.name}: {one.mend}")
    print_result(f"{len(wrong)} to mend" if wrong else "nothing is wrong")
    return int(bool(wrong))


def findings() -> Iterator[Finding]:
    """Everything that is looked at."""
    yield Finding("Python", f"{platform.python_version()}  {sys.executable}")
    yield from packages()
    yield from devices()
    yield cache()
    yield from optional_packages()
    yield from foreign_components()


def packages() -> Iterator[Finding]:
    """tfzoo and the packages that it requires; those with a wrong version have to be mended."""
    from packaging.requirements import Requirement

    yield Finding("tfzoo", f"{tfzoo.__version__}  {Path(tfzoo.__file__).parent}")
    try:
        wanted = [Requirement(text) for text in requires("tfzoo") or []]
    except PackageNotFoundError:
        yield Finding("requirements", "not known: tfzoo is not installed", "pip install -e .")
        return
    for one in wanted:
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        found = installed(one.name)
        if not found or not one.specifier.contains(found, prereleases=True):
            text = f"{found or 'not installed'}, tfzoo needs {one.specifier}"
            yield Finding(one.name, text, f"pip install '{one.name}{one.specifier}'")
        elif one.name in ("torch", "lightning", "wandb"):
            yield Finding(one.name, found)


def devices() -> Iterator[Finding]:
    """Cores, threads, memory and GPUs, as PyTorch sees them."""
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding(
            "torch", f"cannot be imported: {error}", "pip install --force-reinstall torch"
        )
        return
    from tfzoo.runs.machine import available_cores

    cores, threads = available_cores(), torch.get_num_threads()
    yield Finding(
        "CPU",
        f"{cores} cores, {threads} threads",
        f"more threads than cores are slow: export OMP_NUM_THREADS={cores}"
        if threads > cores
        else "",
    )
    yield Finding("memory", f"{readable(memory.machine())}, {readable(memory.free())} free")
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        total = torch.cuda.get_device_properties(index).total_memory
        name = torch.cuda.get_device_name(index)
        yield Finding(f"cuda:{index}", f"{name}, {readable(total)}")
    if torch.backends.mps.is_available():
        yield Finding("mps", "Apple GPU")
    if not torch.cuda.is_available() and shutil.which("nvidia-smi"):
        mend = (
            "PyTorch does not find the NVIDIA GPU: update its driver (nvidia-smi shows it)"
            if torch.version.cuda
            else "this PyTorch is a build for CPUs: pip install torch from https://pytorch.org"
        )
        yield Finding("GPU", "an NVIDIA driver, but no GPU in PyTorch", mend)


def cache() -> Finding:
    """The cache: its folder, its size, and whether it can be written."""
    from tfzoo.base import cache

    folder = cache.folder()
    beside = next(path for path in (folder, *folder.parents) if path.exists())
    other = "set the environment variable TFZOO_CACHE to another folder"
    try:
        with tempfile.TemporaryFile(dir=beside):
            pass
        free = shutil.disk_usage(beside).free
    except OSError as error:
        return Finding("cache", f"{folder}  cannot be written: {error.strerror}", other)
    text = f"{folder}  {readable(cache.size())}, writable, {readable(free)} free"
    full = f"the disk is nearly full: tfzoo cache --clear, or {other}"
    return Finding("cache", text, full if free < FREE else "")


def optional_packages() -> Iterator[Finding]:
    """The extras of tfzoo, packages that only some options need."""
    try:
        extras = metadata("tfzoo").get_all("Provides-Extra", [])
    except PackageNotFoundError:
        extras = []
    for extra in extras:
        states, missing = [], False
        for one in dict.fromkeys(packages_of("tfzoo", extra)):
            found = installed(one.name)
            right = found is not None and one.specifier.contains(found, prereleases=True)
            state = f"{one.name} {found or 'not installed'}"
            states.append(state if right or not found else f"{state} (needed: {one.specifier})")
            missing |= not right
        hint = f"; if you need it: pip install 'tfzoo[{extra}]'" if missing else ""
        yield Finding(f"extra {extra}", ", ".join(states) + hint)
    for package in USED_IF_THERE:
        yield Finding(package, installed(package) or "not installed")


def packages_of(package: str, extra: str) -> Iterator[Requirement]:
    """What an extra of a package installs, also by extras of other packages."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in requires(package) or []]
    except PackageNotFoundError:
        return
    for one in wanted:
        if one.marker is None or not one.marker.evaluate({"extra": extra}):
            continue
        if one.marker.evaluate({"extra": ""}):
            continue  # required without the extra, too
        if not one.extras:
            yield one
        for inner in sorted(one.extras):
            yield from packages_of(one.name, inner)


def foreign_components() -> Iterator[Finding]:
    """Components of other packages that cannot be used."""
    for kind in KINDS:
        for name in set(registry(kind).names()) - set(registry(kind).own_names()):
            try:
                registry(kind).entry(name)
            except Exception as error:  # whatever that package does when it is imported
                mend = "mend or uninstall the package that registers it"
                yield Finding(f"{kind} {name}", " ".join(str(error).split()), mend)


def installed(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
