"""Classes of Lightning in a recipe: callbacks, loggers, strategies and others, by name or as
``{class_path: ..., init_args: ...}``. Their constructors say which options they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from tfzoo.base.arguments import arguments, check_arguments
from tfzoo.base.values import convert
from tfzoo.errors import BadRecipe, did_you_mean, listing

CLASSES = {
    "callbacks": "lightning.pytorch.callbacks",
    "logger": "lightning.pytorch.loggers",
    "strategy": "lightning.pytorch.strategies",
    "profiler": "lightning.pytorch.profilers",
    "plugins": "lightning.pytorch.plugins",
    "accelerator": "lightning.pytorch.accelerators",
}
"""The arguments of the Trainer whose values are classes, and where Lightning has them."""
LISTS = ("callbacks", "logger", "plugins")
"""Those that are lists."""
NAMES = ("strategy", "profiler", "accelerator")
"""Those for which Lightning has other names than those of classes, such as ``ddp``."""


def check_classes(key: str, value: Any) -> Any:
    """The value of an argument of the Trainer in :data:`CLASSES`, as a recipe keeps it: with the
    import path of each class, and its options in their types.

    Raises:
        BadRecipe, BadOption: a class that cannot be imported, or an option that it does not have or
            that is of the wrong type.
    """
    if value is None or (key == "logger" and isinstance(value, bool)):
        return value
    if key in LISTS:
        return [check_class(key, one) for one in as_list(value)]
    return check_class(key, value)


def check_class(key: str, value: Any) -> Any:
    """As :func:`check_classes`, of one class."""
    options = as_mapping(value, "class_path")
    what = key.removesuffix("s")
    if "class_path" not in options:
        raise BadRecipe(f"name the {what} first (--trainer.{key} NAME), then its options")
    module, _, name = str(options.pop("class_path")).rpartition(".")
    path = f"{module or CLASSES[key]}.{name}"
    try:
        cls = load(path)
    except Exception as error:  # of any kind, if it is not Lightning's
        raise BadRecipe(f"cannot import {path}: {type(error).__name__}: {error}") from None
    own = path.startswith("lightning.")
    if not isinstance(cls, type) or (own and not cls.__module__.startswith("lightning.")):
        if isinstance(value, str) and key in NAMES and not module:
            return value
        package = vars(import_module(CLASSES[key]))
        known = [one for one in package if isinstance(package[one], type)]
        raise BadRecipe(
            f"no {what} named {name!r}.{did_you_mean(name, known)} Known: {listing(known, 40)}"
        )
    supplied = {"save_dir": ""} if "save_dir" in arguments(cls) else {}
    check_arguments(cls, {**supplied, **options})
    for option, one in options.items():
        if isinstance(one, Mapping) and "class_path" in one:
            options[option] = check_class(key, one)
        else:
            converted = convert_option(cls, option, one)
            options[option] = one if isinstance(converted, timedelta) else converted
    return {"class_path": path, **({"init_args": options} if options else {})}


def make(value: Any, **supplied: Any) -> Any:
    """What a value that :func:`check_classes` has returned stands for: instances of classes, which
    take ``supplied`` where nothing else is given.
    """
    if isinstance(value, list):
        return [make(one) for one in value]
    if not isinstance(value, Mapping) or "class_path" not in value:
        return value
    cls = load(value["class_path"])
    options = {**supplied, **value.get("init_args", {})}
    return cls(**{option: convert_option(cls, option, make(options[option])) for option in options})


def convert_option(cls: type, option: str, value: Any) -> Any:
    """The value of an option of a class in its type. Other classes' instances stay what they are.

    Raises:
        BadRecipe: it is of another type.
    """
    known = arguments(cls)
    try:
        return convert(value, known[option].annotation if option in known else Any)
    except ValueError as error:
        raise BadRecipe(f"{cls.__name__}: {option} {error}") from None


def load(path: str) -> Any:
    """What an import path names; None if its module has nothing of that name."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name, None)


def as_mapping(spec: Any, name: str) -> dict[str, Any]:
    """What a class or a component is called, under the key ``name``, and its options."""
    if not isinstance(spec, Mapping):
        return {name: spec}
    options = spec.get("init_args") or {}
    return {**{key: value for key, value in spec.items() if key != "init_args"}, **options}


def as_list(value: Any) -> list[Any]:
    """A list as it is, None as an empty list, and any other value in a list of its own."""
    return value if isinstance(value, list) else [] if value is None else [value]
