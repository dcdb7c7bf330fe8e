"""Every value of a recipe that is not Lightning's: converted to its type and checked, once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, get_args, get_origin

from tfzoo.config.merge import Merged, merge_spec
from tfzoo.config.sections import DEFAULTS, LIGHTNING, RANGES, TOP, Section, parts
from tfzoo.errors import BadRecipe, TfzooError
from tfzoo.registry import registry
from tfzoo.values import convert, type_name


def validate(merged: Merged) -> dict[str, Any]:
    """The values of the top and of all sections but Lightning's, defaults included.

    Raises:
        BadRecipe, BadOption, UnknownName: naming the file or option that the value came from.
    """
    tree = {**DEFAULTS, **merged.tree}
    found = {
        key: top(key, convert_value(tree[key], hint, key, merged), merged)
        for key, hint in TOP.items()
        if tree.get(key) is not None
    }
    for name, section in merged.sections.items():
        if name not in LIGHTNING:
            found[name] = validate_section(name, section, merged)
    return found


def top(key: str, value: Any, merged: Merged) -> Any:
    """A value that stands in no section, if it lies in its range."""
    least, most = RANGES.get(key, (None, None))
    if least is not None and not least <= value <= most:
        raise BadRecipe(f"{merged.origin(key)}: {key}={value} must be from {least} to {most:,}")
    return value


def validate_section(name: str, section: Section, merged: Merged) -> dict[str, Any]:
    """The values of one section, in the order of its constructor's arguments."""
    values = {**section.defaults, **merged.tree.get(name, {})}
    found: dict[str, Any] = {}
    for key in section.hints:
        path = f"{name}.{key}"
        if key not in values:
            continue
        if section.is_side(key) and isinstance(values[key], Mapping):
            found[key] = {
                inner: side_value(section, values, inner, value, path, merged)
                for inner, value in values[key].items()
            }
        else:
            found[key] = convert_key(section, key, values[key], path, merged)
    return found


def side_value(
    section: Section, values: Mapping[str, Any], key: str, value: Any, path: str, merged: Merged
) -> Any:
    """An option of one side of a model; one of a component alone is of the component of both."""
    if key in section.slots:
        value = merge_spec(values[key], value)
    elif key not in section.hints:
        return value  # the constructor knows which options a side has
    return convert_key(section, key, value, f"{path}.{key}", merged)


def convert_key(section: Section, key: str, value: Any, path: str, merged: Merged) -> Any:
    """A value as its key wants it: a component's spec, or a value of the key's type."""
    if key not in section.slots or (value is None and type(None) in parts(section.hints[key])):
        return convert_value(value, section.hints[key], path, merged)
    kind = section.slots[key]
    try:
        if not isinstance(value, str | Mapping):
            raise BadRecipe(f"{kind} wants a name or {{name: ..., ...}}, not {value!r}")
        entry, options = registry(kind).options(value)
    except TfzooError as error:
        error.args = (f"{merged.origin(path)}: {error}",)
        raise
    return {"name": entry.name, **options} if options else entry.name


def convert_value(value: Any, hint: Any, path: str, merged: Merged) -> Any:
    """A value of the type ``hint``, where each number is finite."""
    try:
        found = convert_nested(value, hint)
    except ValueError as error:
        what = f"must be {readable(hint)}, not {value!r}" if not error.args else str(error)
        raise BadRecipe(f"{merged.origin(path)}: {path} {what}") from None
    return found


def convert_nested(value: Any, hint: Any) -> Any:
    """``value`` as a plain type, or as a list, tuple or dict of them; ValueError where it is none."""
    for part in parts(hint):
        origin, inner = get_origin(part), get_args(part)
        if part is Any:
            return value
        if origin is list and isinstance(value, list | tuple):
            return [convert_nested(one, inner[0]) for one in value]
        if origin is tuple and isinstance(value, list | tuple) and len(value) == len(inner):
            return [convert_nested(one, kind) for one, kind in zip(value, inner, strict=True)]
        if origin is dict and isinstance(value, Mapping):
            return {str(key): convert_nested(one, inner[1]) for key, one in value.items()}
    try:
        found = convert(value, hint)
    except ValueError:
        raise ValueError from None
    if isinstance(found, float) and not isfinite(found):
        raise ValueError(f"must be a finite number, not {value}")
    return found


def readable(hint: Any) -> str:
    """A type as people write it."""
    modules = r"\b(?:typing|datetime|pathlib|collections\.abc)\.|\b(?:lightning|torch)(?:\.\w+)*\."
    text = re.sub(rf"(?:{modules})(?=\w)", "", type_name(hint))
    return text if len(text) <= 160 else f"{text[:160]}..."
