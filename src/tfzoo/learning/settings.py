"""The settings of a task: its constructor's arguments except model, tokenizer and seed."""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from typing import Any, get_args

from tfzoo.base.arguments import arguments
from tfzoo.errors import BadOption

NOT_SETTINGS = ("model", "tokenizer", "seed")


def parameters(task: type) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each setting of a task, by name. The settings of its parent classes
    are included if its constructor has ``**kwargs``.
    """
    return {
        name: (one.annotation, one.default)
        for name, one in arguments(task).items()
        if name not in NOT_SETTINGS
    }


def sections(task: type) -> dict[str, type]:
    """The settings whose type is a dataclass, by name: each is a section of a recipe."""
    return {
        name: part
        for name, (annotation, _) in parameters(task).items()
        for part in (get_args(annotation) or (annotation,))
        if isinstance(part, type) and is_dataclass(part)
    }


def check_names(task: type, names: Set[str]) -> None:
    """Check that no argument of a task's constructor is a field of one of its sections.

    Raises:
        BadOption: it is; the message says where it belongs.
    """
    for name in names - {*NOT_SETTINGS, *parameters(task)} if names else ():
        for section, cls in sections(task).items():
            if name in arguments(cls):
                call = f"{section}={cls.__name__}({name}=...)"
                raise BadOption(f"{task.__name__}: {name} is a setting of {section}: {call}")


def check(
    task: type, given: tuple[tuple[Any, ...], Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings that a task was built with, as a checkpoint stores them: the dataclass
    settings as dicts, also those that are left to their defaults, and all others.

    Raises:
        BadOption: a setting that a checkpoint could not restore.
    """
    positional, named = given
    if len(positional) > 2:
        raise BadOption(
            f"{task.__name__}: settings are keyword arguments, after model and tokenizer"
        )
    known = parameters(task)
    classes = sections(task)
    kept: dict[str, Any] = {}
    for name, cls in classes.items():
        with suppress(TypeError):  # one without defaults, which has to be given
            kept[name] = asdict(cls())
    options = {
        name: default
        for name, (_, default) in known.items()
        if name not in classes and is_plain(default)
    }
    for name, value in named.items():
        if name in NOT_SETTINGS or (name in classes and value is None):
            continue
        if is_dataclass(value) and type(value) is classes.get(name):
            kept[name] = asdict(value)  # type: ignore[arg-type]  # an instance
        elif name not in classes and is_plain(value):
            options[name] = value
        else:
            wanted = "a setting must be a dataclass, number, string, list or dict"
            if is_dataclass(value):
                wanted = "annotate the parameter with its class"
            if name in classes:
                wanted = f"it must be {classes[name].__name__}(...)"
            raise BadOption(
                f"{task.__name__}: a checkpoint could not restore {name}={short(value)}; {wanted}"
            )
    return kept, options


def short(value: object) -> str:
    """How a value is written in a message: the beginning of it, on one line."""
    return f"{' '.join(repr(value).split()):.60}"


def check_sizes(given: Mapping[str, Any], derived: Mapping[str, Any]) -> None:
    """Check that a model has the sizes that are derived from the tokenizer, such as ``vocab_size``,
    because these are not in a checkpoint's recipe. ``source_vocab_size=None`` means ``vocab_size``.

    Raises:
        BadOption: a size differs.
    """
    for key in given:
        has, needs = (
            sizes.get("vocab_size") if key == "source_vocab_size" and not sizes[key] else sizes[key]
            for sizes in (given, derived)
        )
        if has != needs:
            raise BadOption(
                f"the model has {key}={has}, but the tokenizer or the labels need {key}={needs}"
            )


def is_plain(value: Any) -> bool:
    """Whether a value is None, bool, int, float, str, or a list, tuple or dict of them."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)
