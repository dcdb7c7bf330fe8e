"""Convert every value of a merged configuration to its type and check it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from math import inf
from typing import Any

from tfzoo.base.registry import registry
from tfzoo.base.values import convert, members
from tfzoo.config.lightning import CLASSES, as_list, check_classes
from tfzoo.config.merge import SPLITS, Merged, Origins, absolute_path, merge_spec
from tfzoo.config.sections import DEFAULTS, LIGHTNING, RANGES, TOP, Section
from tfzoo.errors import BadRecipe, did_you_mean, listing, within
from tfzoo.models.options import option_types

SHARDING = re.compile("fsdp|deepspeed|modelparallel", re.IGNORECASE)
"""In the names of strategies by which each process holds a part of each parameter."""
OPEN = ("explain/", "train/expert_share/")
"""Beginnings of the names of metrics that depend on the model."""


def validate(merged: Merged) -> dict[str, Any]:
    """Return the converted values of the top level and of all sections. Keys that are not set have
    their defaults, except in Lightning's sections, where they are left out, as are those that are
    set to their defaults. Paths of data become absolute: ``data.root``, or the splits where there
    is none; with ``data.name``, a data set of the Hugging Face hub, splits are names and not paths.

    Raises:
        BadRecipe, BadOption, UnknownName: naming the file or option that set the value.
    """
    top = DEFAULTS | {key: value for key, value in merged.values.items() if value is not None}
    converted = {
        key: convert_value(top[key], hint, key, merged.origins)
        for key, hint in TOP.items()
        if top.get(key) is not None
    }
    for name, section in merged.sections.items():
        defaults = {} if name in LIGHTNING else section.defaults
        values = {**defaults, **merged.values.get(name, {})}
        converted[name] = {
            key: convert_key(section, key, values, f"{name}.{key}", merged.origins)
            for key in section.hints
            if key in values
        }
    for name in LIGHTNING:
        defaults = {**merged.sections[name].defaults, "mode": None}  # here it is max, there min
        converted[name] = {
            key: value for key, value in converted[name].items() if value != defaults[key]
        }
    converted["model"].pop("like", None)  # its options have been merged
    data = converted["data"]
    paths = ("root",) if data.get("root") else () if data.get("name") else SPLITS
    converted["data"] = {
        key: absolute_path(value) if key in paths else value for key, value in data.items()
    }
    return converted


def convert_key(
    section: Section, key: str, values: Mapping[str, Any], path: str, origins: Origins
) -> Any:
    """Convert the value of a key: the spec of a component; the options of a part of the model, such
    as ``encoder: {norm: batch}``; or a value of the key's type.
    """
    value, hint = values[key], section.hints.get(key, Any)
    if path.startswith("trainer.") and key in CLASSES:
        with within(origins.of(path)):
            return check_classes(key, value)
    if section.is_nested(key) and isinstance(value, Mapping):
        converted = {}
        for inner, spec in value.items():
            # Options without a name, `encoder: {norm: {eps: 1e-6}}`, belong to model.norm; the norm
            # of `query_key_norm`, an option of layers, is another one.
            if inner in section.slots and key not in option_types():
                spec = merge_spec(values[inner], spec)
            converted[inner] = convert_key(
                section, inner, {inner: spec}, f"{path}.{inner}", origins
            )
        return converted
    if key not in section.slots or (value is None and type(None) in members(hint)):
        return convert_value(value, hint, path, origins)
    with within(origins.of(path)):
        entry, options = registry(section.slots[key]).options(value)
    return {"name": entry.name, **options} if options else entry.name


def convert_value(value: Any, hint: Any, path: str, origins: Origins) -> Any:
    """Convert a value to the type ``hint``, and check that it lies in its range. Times stay texts,
    as a recipe holds them.
    """
    try:
        converted = convert(value, hint)
    except ValueError as error:
        raise BadRecipe(f"{origins.of(path)}: {path} {error}") from None
    least, most = RANGES.get(path, (-inf, inf))
    if isinstance(converted, int | float) and not least <= converted <= most:
        wanted = f"at least {least}" if most == inf else f"from {least} to {most:,}"
        raise BadRecipe(f"{origins.of(path)}: {path}={value} must be {wanted}")
    return value if isinstance(converted, timedelta) else converted


def check_meaning(task: Any, recipe: Mapping[str, Any], origins: Origins) -> None:
    """Check values of which each is of its type, but which together train nothing, or which this
    task does not have.

    Raises:
        BadRecipe: naming the file or option that set the value.
    """
    check_trainer(recipe["trainer"], origins)
    check_averaging(recipe, origins)
    check_monitors(task, recipe, origins)
    if recipe.get("samples") is not None and task.samples is None:
        raise BadRecipe(
            f"{origins.of('samples')}: samples: task {task.entry.name!r} prints no texts; leave it "
            "out"
        )


def check_trainer(values: Mapping[str, Any], origins: Origins) -> None:
    """Check arguments of the Trainer with which nothing would be trained, or that end training with
    an error where it first validates.

    Raises:
        BadRecipe: naming the file or option that set the value.
    """
    for key in ("max_steps", "max_epochs", "limit_train_batches"):
        if values.get(key) == 0:
            origin = origins.of(f"trainer.{key}")
            raise BadRecipe(f"{origin}: trainer.{key}=0 trains nothing: it must be at least 1")
    devices = str(values.get("devices"))
    if devices.isdecimal() and len(devices) > 4:  # Lightning makes a list of them
        raise BadRecipe(f"{origins.of('trainer.devices')}: trainer.devices must be at most 9,999")
    interval = values.get("val_check_interval")
    origin = origins.of("trainer.val_check_interval")
    if isinstance(interval, float) and values.get("check_val_every_n_epoch", 1) is None:
        raise BadRecipe(
            f"{origin}: trainer.val_check_interval={interval} is a share of an epoch, which needs "
            "trainer.check_val_every_n_epoch 1; or give a number of batches"
        )
    if isinstance(interval, int | float) and interval <= 0:
        raise BadRecipe(
            f"{origin}: trainer.val_check_interval={interval} must be over 0: a number of batches, "
            "or a share of an epoch such as 0.5; trainer.limit_val_batches 0 leaves validation out"
        )


def check_averaging(recipe: Mapping[str, Any], origins: Origins) -> None:
    """Check that no average is made of weights that are sharded, which Lightning cannot copy.

    Raises:
        BadRecipe: naming what averages, and the strategy.
    """
    strategy = recipe["trainer"].get("strategy")
    name = str(strategy.get("class_path") if isinstance(strategy, Mapping) else strategy)
    callbacks = [one["class_path"] for one in as_list(recipe["trainer"].get("callbacks"))]
    averages = [one.rpartition(".")[2] for one in callbacks if one.endswith("WeightAveraging")]
    averaged = recipe["optim"].get("average")
    averages += ["optim.average"] if averaged else []
    if averages and SHARDING.search(name):
        raise BadRecipe(
            f"{origins.of('trainer.strategy')}: trainer.strategy {name} shards the weights, of "
            f"which {averages[0]} keeps a copy: leave one of them out"
        )


def check_monitors(task: Any, recipe: Mapping[str, Any], origins: Origins) -> None:
    """Check that the task logs what ``checkpoint`` and callbacks monitor, and what the names of
    checkpoints hold, and that no score is monitored in the wrong direction. Nothing is known of
    that where a callback of another package may log more.

    Raises:
        BadRecipe: naming the file or option, and the metrics that are logged, or the direction.
    """
    callbacks = as_list(recipe["trainer"].get("callbacks") or [])
    if not all(str(callback["class_path"]).startswith("lightning.") for callback in callbacks):
        return
    checkpoint = recipe["checkpoint"]
    monitor = checkpoint.get("monitor")
    modes = [("checkpoint", monitor or task.monitor, checkpoint.get("mode"))]
    monitors = [("checkpoint.monitor", monitor)]
    for callback in callbacks:
        given = callback.get("init_args") or {}
        monitors.append(("trainer.callbacks", given.get("monitor")))
        modes.append((*monitors[-1], given.get("mode", "min")))  # Lightning's default
    filename = checkpoint.get("filename") or ""
    for name in re.findall(r"\{(.*?)[:}]", filename):  # as ModelCheckpoint reads it
        if name not in ("epoch", "step"):
            monitors.append(("checkpoint.filename", name))
    known = task.logged_names()
    for key, name in monitors:
        if name and name not in known and not name.startswith(OPEN):
            raise BadRecipe(
                f"{origins.of(key)}: {key}: no metric {name!r}.{did_you_mean(name, known)} "
                f"Known: {listing(known, 30)}"
            )
    for key, name, mode in modes:
        if name and mode:
            with within(f"{origins.of(key)}: {key}"):
                task.check_mode(name, mode)
