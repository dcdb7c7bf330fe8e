"""Merge the layers of a configuration. Later layers override earlier ones.

The order is: defaults of constructors, the recipe, ``--config`` files, command-line options.
Components are merged by name: an option without a name (``--model.norm.eps 1e-6``) is added to the
component of the earlier layers; another name replaces the component together with its options.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfzoo.config.loader import parse_yaml
from tfzoo.config.sections import LIGHTNING, TOP, Section, misplaced, union_members
from tfzoo.errors import BadRecipe
from tfzoo.values import is_plain


@dataclass(frozen=True)
class Layer:
    """Nested values and their origin: the name of a file, or an option such as ``--model.norm``."""

    values: Mapping[str, Any]
    origin: str
    path: Path | None = None


class Origins(dict[str, str]):
    """The origin of each dotted key: the layer that set it last. Error messages name it."""

    def of(self, path: str) -> str:
        """The origin of a key, or of the closest key that contains it."""
        while path and path not in self:
            path = path.rpartition(".")[0]
        return self.get(path, "recipe")

    def file_of(self, section: str) -> str:
        """The name of the file that set all keys of a section, with a colon; ``""`` if there are
        several, or command-line options.
        """
        found = {origin for key, origin in self.items() if key.startswith(f"{section}.")}
        return f"{found.pop()}: " if len(found) == 1 and "--" not in "".join(found) else ""


@dataclass
class Merged:
    """Merged layers: nested values, and the origin of each key."""

    sections: Mapping[str, Section]
    values: dict[str, Any] = field(default_factory=dict)
    origins: Origins = field(default_factory=Origins)

    def add(self, layer: Layer) -> None:
        """Merge a layer; its values override those of earlier layers.

        Raises:
            BadRecipe: a key that is unknown, or in the wrong section.
        """
        for key, value in layer.values.items():
            if key in TOP:
                self.values[key], self.origins[key] = value, layer.origin
            elif key not in self.sections:
                raise BadRecipe(f"{layer.origin}: {misplaced(self.sections, key)}")
            elif not isinstance(value, Mapping | None):
                raise BadRecipe(f"{layer.origin}: {key} is a section of keys, not {value!r}")
            else:
                for name, inner in (value or {}).items():
                    self._add_key(key, str(name), inner, layer.origin)

    def _add_key(self, section: str, key: str, value: Any, origin: str) -> None:
        known, values = self.sections[section], self.values.setdefault(section, {})
        key = known.current_name(key, origin)
        if key not in known.hints:
            raise BadRecipe(f"{origin}: {misplaced(self.sections, key, section)}")
        self.origins[f"{section}.{key}"] = origin
        before = values.get(key, known.defaults.get(key))
        if key in known.slots:
            values[key] = merge_spec(before, value)
        elif (section, key) == ("trainer", "logger"):
            values[key] = merge_logger(before, value)
        elif isinstance(before, Mapping) and isinstance(value, Mapping):
            slots = known.slots if known.is_nested(key) else {}
            changed = {
                name: merge_spec(before.get(name), inner) if name in slots else inner
                for name, inner in value.items()
            }
            values[key] = {**before, **changed}
        else:
            values[key] = value


def merge_spec(earlier: Any, later: Any) -> Any:
    """Merge two specs of a component: options are merged if both name the same component."""
    if not isinstance(later, str | Mapping) or not isinstance(earlier, str | Mapping):
        return later
    old = {"name": earlier} if isinstance(earlier, str) else earlier
    new = {"name": later} if isinstance(later, str) else later
    return {**old, **new} if new.get("name", old.get("name")) == old.get("name") else later


def merge_logger(earlier: Any, later: Any) -> Any:
    """Merge a logger, or a list of loggers: options are merged if both are of the same class."""
    if isinstance(later, list):
        return [merge_logger(None, one) for one in later]
    if isinstance(later, str):
        return {"class_path": later}
    if isinstance(later, Mapping) and not later.keys() & {"class_path", "init_args"}:
        later = {"init_args": dict(later)}
    if not isinstance(later, Mapping) or not isinstance(earlier, Mapping):
        return later
    if later.get("class_path") not in (None, earlier.get("class_path")):
        return later
    options = {**earlier.get("init_args", {}), **later.get("init_args", {})}
    return {**earlier, **later, "init_args": options}


def parse_options(
    options: Iterable[tuple[str, str | None]],
    sections: Mapping[str, Section],
    paths: Collection[str] = (),
) -> list[Layer]:
    """Return a layer for each command-line option that jsonargparse does not parse.

    A component comes before its options, whatever their order on the command line. ``paths`` are
    the keys of the section ``data`` whose values are paths; they are made absolute.

    Raises:
        BadRecipe: an unknown option, or one without its value.
    """
    layers = []
    for key, text in sorted(options, key=lambda option: option[0].count(".")):
        if is_lightning_option(key):
            continue
        hint = option_type(key, sections)
        if text is None and not accepts(hint, bool):
            raise BadRecipe(f"--{key} needs a value")
        value = "true" if text is None else parse_value(text, hint, f"--{key}")
        names = key.split(".")
        if names[0] == "data" and names[1:2] and names[1] in paths:
            value = absolute_path(value)
        layers.append(Layer(nested(names, value), f"--{key}"))
    return layers


def is_lightning_option(key: str) -> bool:
    """Whether jsonargparse parses an option: all of the sections ``trainer`` and ``checkpoint``
    except the logger.
    """
    section, _, name = key.partition(".")
    return section in LIGHTNING and name.partition(".")[0] not in ("", "logger")


def option_type(key: str, sections: Mapping[str, Section]) -> Any:
    """Return the type of the value of a dotted key; ``Any`` if it is not known.

    Raises:
        BadRecipe: an unknown key.
    """
    section, _, rest = key.partition(".")
    if not rest:
        if section not in TOP:
            raise BadRecipe(f"--{key}: {misplaced(sections, section)}")
        return TOP[section]
    name, _, inner = rest.partition(".")
    found = sections.get(section)
    if found is None:
        raise BadRecipe(f"--{key}: {misplaced(sections, section)}")
    name = found.current_name(name, f"--{key}")
    if name not in found.hints:
        raise BadRecipe(f"--{key}: {misplaced(sections, name, section)}")
    return found.type_of(name, inner)


def accepts(hint: Any, kind: type) -> bool:
    """Whether a type is ``kind`` or a union with it."""
    return kind in union_members(hint)


def parse_value(text: str, hint: Any, origin: str) -> Any:
    """Parse the text of an option. Text of a plain type stays text; ``validation`` converts it."""
    if text in ("null", "None") and (not is_plain(hint) or accepts(hint, type(None))):
        return None
    if is_plain(hint):
        return text
    if accepts(hint, str) and text[:1] not in ("{", "["):
        return text
    return parse_yaml(text, origin)


def absolute_path(value: Any) -> Any:
    """Make a path, or each path of a mapping, absolute. Relative paths start at the working
    directory.
    """
    if isinstance(value, Mapping):
        return {name: absolute_path(path) for name, path in value.items()}
    return str(Path(value).expanduser().resolve()) if isinstance(value, str) else value


def nested(names: list[str], value: Any) -> dict[str, Any]:
    """Return ``{"a": {"b": value}}`` for the names ``["a", "b"]``."""
    for name in reversed(names):
        value = {name: value}
    return value  # type: ignore[no-any-return]  # the outermost is a dict
