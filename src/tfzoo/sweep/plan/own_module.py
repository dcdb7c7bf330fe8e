"""The settings of a sweep of any LightningModule, checked before the first run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tfzoo.base.arguments import check_arguments
from tfzoo.base.registry import registry
from tfzoo.errors import BadRecipe, within
from tfzoo.sweep.plan.sweep_file import Cell, Plan

SECTIONS = ("module", "data", "swap", "trainer")
SET_BY_SWEEP = ("default_root_dir", "logger", "callbacks", "enable_checkpointing")
"""Arguments of the Trainer that the sweep sets itself."""
LIMITS = ("max_steps", "max_epochs", "max_time")
"""Arguments of the Trainer that limit training; one must be set."""


def module_settings(plan: Plan, cell: Cell, tuned: str) -> dict[str, Any]:
    """The constructor arguments of a cell's module, data and Trainer, and what is swapped.

    Raises:
        BadRecipe: a class lacks an argument, a required argument is missing, or nothing limits the
            training.
        UnknownName, BadOption: a component to swap in, or one of its options, does not exist.
    """
    if plan.budget.tokens:
        raise BadRecipe(f"{plan.file}: budget.tokens is for recipes; a module has budget.steps")
    found: dict[str, Any] = {section: {} for section in SECTIONS}
    for key, value in plan.settings_of(cell, tuned).items():
        section, _, name = key.partition(".")
        if section not in SECTIONS or not name or "." in name:
            raise BadRecipe(
                f"{plan.file}: {key} is no key of the sweep of a module. Known: module.ARGUMENT "
                "and data.ARGUMENT of the constructors, trainer.ARGUMENT of Lightning's Trainer, "
                "swap.norm, swap.attention and further arguments of tfzoo.SwapParts"
            )
        found[section][name] = value
    with within(str(plan.file)):
        check(plan, found)
    for section, path in (("module", plan.module), ("data", plan.data)):
        found[section] = {"class": path, "arguments": found[section]}
    return found


def check(plan: Plan, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the arguments of a cell. Imports the module and its data.

    Raises:
        BadRecipe, UnknownName, BadOption: as :func:`module_settings`.
    """
    import lightning.pytorch as L

    from tfzoo.swapping.swap import SWAPPED
    from tfzoo.training.swap_parts import SwapParts

    classes = {"module": load_class(plan.module, L.LightningModule), "swap": SwapParts}
    if plan.data:
        classes["data"] = load_class(plan.data, L.LightningDataModule)
    elif settings["data"]:
        raise BadRecipe("data has arguments, but no class: data: package.module:Class")
    for section, cls in {**classes, "trainer": L.Trainer}.items():
        with within(section):
            check_arguments(cls, settings[section])
    for kind in SWAPPED:
        if spec := settings["swap"].get(kind):
            registry(kind).options(spec)
    if taken := [name for name in SET_BY_SWEEP if name in settings["trainer"]]:
        raise BadRecipe(f"trainer.{taken[0]} is set by the sweep: remove it")
    if not any(settings["trainer"].get(limit) for limit in LIMITS):
        raise BadRecipe("training has no end: add budget: {steps: 300}, or trainer.max_epochs")


def load_class(path: str, base: type) -> Any:
    """Import the class ``package.module:Class`` from the working directory or an installed package.

    Raises:
        BadRecipe: it cannot be imported, or is no subclass of ``base``.
    """
    module, colon, name = path.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise BadRecipe(f"{path!r} is no class: write package.module:Class")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # of any kind: it is somebody else's
        raise BadRecipe(f"cannot import {path}: {type(error).__name__}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise BadRecipe(f"{path} is no {base.__name__} of lightning.pytorch")
    return found
