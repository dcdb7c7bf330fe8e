"""Convert every value of a merged configuration to its type and check it, except Lightning's two
sections, which jsonargparse validates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, get_args, get_origin

from tfzoo.config.merge import Merged, Origins, merge_spec
from tfzoo.config.sections import DEFAULTS, LIGHTNING, RANGES, TOP, Section, union_members
from tfzoo.errors import BadRecipe, TfzooError
from tfzoo.registry import registry
from tfzoo.values import convert, type_name


def validate(merged: Merged) -> dict[str, Any]:
    """Return the values of the top level and of all sections except Lightning's, with defaults.

    Raises:
        BadRecipe, BadOption, UnknownName: naming the file or option that set the value.
    """
    top = {**DEFAULTS, **merged.values}
    found = {
        key: check_range(key, convert_value(top[key], hint, key, merged.origins), merged.origins)
        for key, hint in TOP.items()
        if top.get(key) is not None
    }
    for name, section in merged.sections.items():
        if name not in LIGHTNING:
            values = {**section.defaults, **merged.values.get(name, {})}
            found[name] = validate_section(name, section, values, merged.origins)
    return found


def check_range(key: str, value: Any, origins: Origins) -> Any:
    """Return the value of a top-level key after checking that it lies in its range."""
    least, most = RANGES.get(key, (None, None))
    if least is not None and not least <= value <= most:
        raise BadRecipe(f"{origins.of(key)}: {key}={value} must be from {least} to {most:,}")
    return value


def validate_section(
    name: str, section: Section, values: Mapping[str, Any], origins: Origins
) -> dict[str, Any]:
    """Return the converted values of one section, in the order of its constructor's arguments."""
    found: dict[str, Any] = {}
    for key in section.hints:
        path = f"{name}.{key}"
        if key not in values:
            continue
        if section.is_nested(key) and isinstance(values[key], Mapping):
            found[key] = {
                inner: convert_nested_option(section, values, inner, value, path, origins)
                for inner, value in values[key].items()
            }
        else:
            found[key] = convert_key(section, key, values[key], path, origins)
    return found


def convert_nested_option(
    section: Section, values: Mapping[str, Any], key: str, value: Any, path: str, origins: Origins
) -> Any:
    """Convert an option of ``encoder`` or ``decoder``. If it is a component's option without a
    name, it is merged into the component of the whole model.
    """
    if key in section.slots:
        value = merge_spec(values[key], value)
    elif key not in section.hints:
        return value  # the model's constructor checks which options a stack has
    return convert_key(section, key, value, f"{path}.{key}", origins)


def convert_key(section: Section, key: str, value: Any, path: str, origins: Origins) -> Any:
    """Convert the value of a key: the spec of a component, or a value of the key's type."""
    hint = section.hints[key]
    if key not in section.slots or (value is None and type(None) in union_members(hint)):
        return convert_value(value, hint, path, origins)
    kind = section.slots[key]
    try:
        if not isinstance(value, str | Mapping):
            raise BadRecipe(f"{kind} wants a name or {{name: ..., ...}}, not {value!r}")
        entry, options = registry(kind).options(value)
    except TfzooError as error:
        error.args = (f"{origins.of(path)}: {error}",)
        raise
    return {"name": entry.name, **options} if options else entry.name


def convert_value(value: Any, hint: Any, path: str, origins: Origins) -> Any:
    """Convert a value to the type ``hint``. Numbers must be finite."""
    try:
        return convert_nested(value, hint)
    except ValueError as error:
        problem = str(error) if error.args else f"must be {readable_type(hint)}, not {value!r}"
        raise BadRecipe(f"{origins.of(path)}: {path} {problem}") from None


def convert_nested(value: Any, hint: Any) -> Any:
    """Convert a value to a plain type, or to a list, tuple or dict of plain types.

    Raises:
        ValueError: it cannot be converted; with a message if the reason is not its type.
    """
    for member in union_members(hint):
        origin, inner = get_origin(member), get_args(member)
        if member is Any:
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


def readable_type(hint: Any) -> str:
    """Format a type for an error message, without module names."""
    modules = r"\b(?:typing|datetime|pathlib|collections\.abc)\.|\b(?:lightning|torch)(?:\.\w+)*\."
    text = re.sub(rf"(?:{modules})(?=\w)", "", type_name(hint))
    return text if len(text) <= 160 else f"{text[:160]}..."
