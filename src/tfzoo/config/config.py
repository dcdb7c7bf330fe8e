"""The configuration of a training: a recipe whose values are of their types, checked by the
constructors that take them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

from tfzoo.base import memory
from tfzoo.base.registry import registry
from tfzoo.base.values import convert, members
from tfzoo.config.lightning import CLASSES, as_list, check_classes
from tfzoo.config.recipe import SPLITS, Recipe, Start, absolute_path, merge_spec
from tfzoo.config.sections import DEFAULTS, LIGHTNING, RANGES, TOP, Section
from tfzoo.errors import BadRecipe, TfzooError, did_you_mean, listing, within
from tfzoo.models.options import option_types

SHARDING = re.compile("fsdp|deepspeed|modelparallel", re.IGNORECASE)
"""In the names of strategies by which each process holds a part of each parameter."""
OPEN = ("explain/", "train/expert_share/")
"""Beginnings of the names of metrics that depend on the model."""


@dataclass
class Config:
    """A configuration.

    Args:
        name: the name of the recipe's file, without its suffix.
        task: the class of the task.
        defaults: the defaults of each section but Lightning's, whose recipe holds no defaults.
        recipe: every value, defaults included, as plain values. ``--print_config`` prints it, and
            ``config.yaml`` in the run's folder holds it.
        data: the data module of the section ``data``; None if it was not made.
        start: what training starts with, if not with new weights.
    """

    name: str
    task: Any
    defaults: Mapping[str, Mapping[str, Any]]
    recipe: dict[str, Any]
    data: Any = None
    start: Start | None = None

    @classmethod
    def parse(cls, recipe: Recipe, make_data: bool = True) -> Config:
        """Convert the values of a recipe and check them. The constructors of all sections are
        called, because they check ranges and combinations; without ``make_data``, that of ``data``
        is not, and a recipe may lack paths that ``data`` requires. No data is read.

        Raises:
            BadRecipe, BadOption, UnknownName, Clash: one line that names the mistake and the file
                or option that it is in.
        """
        try:
            values = convert_recipe(recipe)
            check_meaning(recipe.task, values)
            data = call_constructors(recipe, values, make_data)
        except TfzooError as error:
            if origin := recipe.origin(error.key):
                said = str(error).removeprefix(f"{origin.removeprefix('--')}: ")
                error.args = (f"{origin}: {said}",)
            raise
        defaults = {
            key: one.defaults for key, one in recipe.sections.items() if key not in LIGHTNING
        }
        return cls(recipe.name, recipe.task, defaults, values, data, recipe.start)


def convert_recipe(recipe: Recipe) -> dict[str, Any]:
    """The converted values of the top level and of all sections. Keys that are not set have their
    defaults, except in Lightning's sections, where they are left out, as are those that are set to
    their defaults. Paths of data become absolute: ``data.root``, or the splits where there is none;
    with ``data.name``, a data set of the Hugging Face hub, splits are names and not paths.
    """
    given = {key: value for key, value in recipe.values.items() if value is not None}
    values = {
        key: convert_value((DEFAULTS | given)[key], hint, key)
        for key, hint in TOP.items()
        if key in DEFAULTS | given
    }
    for name, section in recipe.sections.items():
        own = {**({} if name in LIGHTNING else section.defaults), **recipe.values.get(name, {})}
        values[name] = {
            key: convert_key(section, own, key, f"{name}.{key}")
            for key in section.hints
            if key in own
        }
    for name in LIGHTNING:
        defaults = {**recipe.sections[name].defaults, "mode": None}  # here it is max, there min
        values[name] = {key: one for key, one in values[name].items() if one != defaults[key]}
    checkpoint, task = values["checkpoint"], recipe.task
    if "mode" not in checkpoint and task.mode(checkpoint.get("monitor") or task.monitor) == "min":
        checkpoint["mode"] = "min"
    values["model"].pop("like", None)  # its options have been merged
    data = values["data"]
    for key in ("root",) if data.get("root") else () if data.get("name") else SPLITS:
        data |= {key: absolute_path(data[key])} if key in data else {}
    return values


def convert_key(section: Section, values: Mapping[str, Any], key: str, path: str) -> Any:
    """Convert the value of a key: the spec of a component; the options of a part of the model, such
    as ``encoder: {norm: batch}``; a class of Lightning's; or a value of the key's type.
    """
    value, hint = values[key], section.hints.get(key, Any)
    if section.is_nested(key) and isinstance(value, Mapping):
        # Options without a name, `encoder: {norm: {eps: 1e-6}}`, belong to model.norm; the norm of
        # `query_key_norm`, an option of layers, is another one.
        inherits = section.slots if key not in option_types() else {}
        own = {
            inner: merge_spec(values[inner], spec) if inner in inherits else spec
            for inner, spec in value.items()
        }
        return {inner: convert_key(section, own, inner, f"{path}.{inner}") for inner in own}
    with key_of_errors(path):
        if path.startswith("trainer.") and key in CLASSES:
            return check_classes(key, value)
        if key in section.slots and not (value is None and type(None) in members(hint)):
            entry, options = registry(section.slots[key]).options(value)
            return {"name": entry.name, **options} if options else entry.name
        return convert_value(value, hint, path)


def convert_value(value: Any, hint: Any, path: str) -> Any:
    """Convert a value to the type ``hint``, and check that it lies in its range. Times stay texts,
    as a recipe holds them.
    """
    try:
        converted = convert(value, hint)
    except ValueError as error:
        raise BadRecipe(f"{path} {error}", key=path) from None
    least, most = RANGES.get(path, (-inf, inf))
    if isinstance(converted, int | float) and not least <= converted <= most:
        wanted = f"at least {least}" if most == inf else f"from {least} to {most:,}"
        raise BadRecipe(f"{path}={value} must be {wanted}", key=path)
    return value if isinstance(converted, timedelta) else converted


@contextmanager
def key_of_errors(key: str) -> Iterator[None]:
    """Context in which errors are about this key, or one of its section if they name that."""
    try:
        yield
    except TfzooError as error:
        inner = error.key.removeprefix(f"{key}.")
        error.key = key if inner in ("", key) else f"{key}.{inner}"
        raise


def check_meaning(task: Any, recipe: Mapping[str, Any]) -> None:
    """Check values of which each is of its type, but which together train nothing, or which this
    task does not have.
    """
    check_trainer(recipe["trainer"])
    check_averaging(recipe)
    check_monitors(task, recipe)
    if recipe.get("samples") is not None and task.samples is None:
        raise BadRecipe(
            f"samples: task {task.entry.name!r} prints no texts; leave it out", key="samples"
        )


def check_trainer(values: Mapping[str, Any]) -> None:
    """Check arguments of the Trainer with which nothing would be trained, or that end training with
    an error where it first validates.
    """
    for key in ("max_steps", "max_epochs", "limit_train_batches"):
        if values.get(key) == 0:
            key = f"trainer.{key}"
            raise BadRecipe(f"{key}=0 trains nothing: it must be at least 1", key=key)
    devices = str(values.get("devices"))
    if devices.isdecimal() and len(devices) > 4:  # Lightning makes a list of them
        raise BadRecipe("trainer.devices must be at most 9,999", key="trainer.devices")
    key, interval = "trainer.val_check_interval", values.get("val_check_interval")
    if isinstance(interval, float) and values.get("check_val_every_n_epoch", 1) is None:
        raise BadRecipe(
            f"{key}={interval} is a share of an epoch, which needs "
            "trainer.check_val_every_n_epoch 1; or give a number of batches",
            key=key,
        )
    if isinstance(interval, int | float) and interval <= 0:
        raise BadRecipe(
            f"{key}={interval} must be over 0: a number of batches, or a share of an epoch such as "
            "0.5; trainer.limit_val_batches 0 leaves validation out",
            key=key,
        )


def check_averaging(recipe: Mapping[str, Any]) -> None:
    """Check that no average is made of weights that are sharded, which Lightning cannot copy."""
    strategy = recipe["trainer"].get("strategy")
    name = str(strategy.get("class_path") if isinstance(strategy, Mapping) else strategy)
    callbacks = [one["class_path"] for one in as_list(recipe["trainer"].get("callbacks"))]
    averages = [one.rpartition(".")[2] for one in callbacks if one.endswith("WeightAveraging")]
    averages += ["optim.average"] if recipe["optim"].get("average") else []
    if averages and SHARDING.search(name):
        raise BadRecipe(
            f"trainer.strategy {name} shards the weights, of which {averages[0]} keeps a copy: "
            "leave one of them out",
            key="trainer.strategy",
        )


def check_monitors(task: Any, recipe: Mapping[str, Any]) -> None:
    """Check that the task logs what ``checkpoint`` and callbacks monitor, and what the names of
    checkpoints hold, and that no score is monitored in the wrong direction. Nothing is known of
    that where a callback of another package may log more.
    """
    callbacks = as_list(recipe["trainer"].get("callbacks"))
    if not all(callback["class_path"].startswith("lightning.") for callback in callbacks):
        return
    checkpoint = recipe["checkpoint"]
    monitors = [("checkpoint.monitor", checkpoint.get("monitor"))]
    modes = [("checkpoint.mode", checkpoint.get("monitor") or task.monitor, checkpoint.get("mode"))]
    for callback in callbacks:
        given = callback.get("init_args") or {}
        monitors.append(("trainer.callbacks", given.get("monitor")))
        modes.append((*monitors[-1], given.get("mode", "min")))  # Lightning's default
    for name in re.findall(
        r"\{(.*?)[:}]", checkpoint.get("filename") or ""
    ):  # as Lightning reads it
        monitors.append(("checkpoint.filename", None if name in ("epoch", "step") else name))
    known = task.logged_names()
    for key, name in monitors:
        if name and name not in known and not name.startswith(OPEN):
            raise BadRecipe(
                f"{key}: no metric {name!r}.{did_you_mean(name, known)} "
                f"Known: {listing(known, 30)}",
                key=key,
            )
    for key, name, mode in modes:
        if name and mode:
            with key_of_errors(key), within(key):
                task.check_mode(name, mode)


def call_constructors(recipe: Recipe, values: Mapping[str, Any], make_data: bool) -> Any:
    """Call the constructors of all sections except Lightning's, and of ``data`` if ``make_data``;
    return the data module, None if it was not made. The model is built on the ``meta`` device,
    which allocates no memory, with placeholders for the sizes that follow from the data.
    """
    task = recipe.task
    supplied = {
        "model": task.model_arguments(data=values["data"]),
        "data": {"seed": values["seed"]},
    }
    made: dict[str, Any] = {}
    for name, section in recipe.sections.items():
        if name in LIGHTNING or (name == "data" and not make_data):
            continue
        make = partial(section.cls, **supplied.get(name, {}))
        with section_of_errors(name):
            if name == "model":
                made[name] = memory.without_data(make, values[name])
                task.check_model(made[name])
                continue
            made[name] = make(**values[name])
            if check := getattr(made[name], "check_model", None):
                check(made["model"])
            if name == "optim":
                task.check_optim(made[name], default=0.0)
    return made.get("data")


@contextmanager
def section_of_errors(name: str) -> Iterator[None]:
    """Context in which the messages of errors begin with the name of a section."""
    try:
        with key_of_errors(name):
            yield
    except TfzooError as error:
        if not str(error).startswith(f"{name}."):
            error.args = (f"{name}: {error}",)
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        message = " ".join(str(error).split())[:300]
        raise BadRecipe(f"{name}: {message}", key=name) from None
