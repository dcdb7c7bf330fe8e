"""Layers of a configuration, merged: later ones win.

The order is: defaults of constructors, the recipe, ``--config`` files, options of the command line.
A component's spec is merged by name: an option alone (``--model.norm.eps 1e-6``) keeps the component
that a lower layer named, another name drops that component's options.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfzoo.config.loader import parse_yaml
from tfzoo.config.sections import LIGHTNING, TOP, Section, misplaced, parts
from tfzoo.errors import BadRecipe
from tfzoo.values import is_plain


@dataclass(frozen=True)
class Layer:
    """A tree of values and where it comes from: a file's name, or the option ``--model.norm``."""

    tree: Mapping[str, Any]
    origin: str
    path: Path | None = None


@dataclass
class Merged:
    """Layers merged into one tree; ``origins`` names the layer that each key came from last."""

    sections: Mapping[str, Section]
    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def add(self, layer: Layer) -> None:
        """Merge one more layer over all before.

        Raises:
            BadRecipe: a key that is unknown, or that stands in the wrong section.
        """
        for key, value in layer.tree.items():
            if key in TOP:
                self.tree[key], self.origins[key] = value, layer.origin
            elif key not in self.sections:
                raise BadRecipe(f"{layer.origin}: {misplaced(self.sections, key)}")
            elif not isinstance(value, Mapping | None):
                raise BadRecipe(f"{layer.origin}: {key} is a section of keys, not {value!r}")
            else:
                for name, inner in (value or {}).items():
                    self._add(key, str(name), inner, layer.origin)

    def _add(self, section: str, key: str, value: Any, origin: str) -> None:
        known, values = self.sections[section], self.tree.setdefault(section, {})
        key = known.current(key, origin)
        if key not in known.hints:
            raise BadRecipe(f"{origin}: {misplaced(self.sections, key, section)}")
        self.origins[f"{section}.{key}"] = origin
        before = values.get(key, known.defaults.get(key))
        if key in known.slots:
            values[key] = merge_spec(before, value)
        elif (section, key) == ("trainer", "logger"):
            values[key] = merge_logger(before, value)
        elif isinstance(before, Mapping) and isinstance(value, Mapping):
            slots = known.slots if known.is_side(key) else {}
            changed = {
                name: merge_spec(before.get(name), inner) if name in slots else inner
                for name, inner in value.items()
            }
            values[key] = {**before, **changed}
        else:
            values[key] = value

    def origin(self, path: str) -> str:
        """Where a key, or what it belongs to, came from."""
        while path and path not in self.origins:
            path = path.rpartition(".")[0]
        return self.origins.get(path, "recipe")


def merge_spec(below: Any, above: Any) -> Any:
    """The spec of a component: options are added to those of the same component."""
    if not isinstance(above, str | Mapping) or not isinstance(below, str | Mapping):
        return above
    old = {"name": below} if isinstance(below, str) else below
    new = {"name": above} if isinstance(above, str) else above
    return {**old, **new} if new.get("name", old.get("name")) == old.get("name") else above


def merge_logger(below: Any, above: Any) -> Any:
    """A logger, or a list of them: options are added to those of the same class."""
    if isinstance(above, list):
        return [merge_logger(None, one) for one in above]
    if isinstance(above, str):
        return {"class_path": above}
    if isinstance(above, Mapping) and not above.keys() & {"class_path", "init_args"}:
        above = {"init_args": dict(above)}
    if not isinstance(above, Mapping) or not isinstance(below, Mapping):
        return above
    if above.get("class_path") not in (None, below.get("class_path")):
        return above
    options = {**below.get("init_args", {}), **above.get("init_args", {})}
    return {**below, **above, "init_args": options}


def option_layers(
    options: Iterable[tuple[str, str | None]],
    sections: Mapping[str, Section],
    paths: Collection[str] = (),
) -> list[Layer]:
    """A layer for each option of the command line that jsonargparse does not read.

    Their order does not matter: a component is merged before its options. The values of ``paths``,
    keys of the section ``data``, are taken relative to the working directory.

    Raises:
        BadRecipe: an option that no recipe has, or one without its value.
    """
    ordered = sorted(options, key=lambda option: option[0].count("."))
    layers = []
    for key, text in ordered:
        if is_lightning(key):
            continue
        hint = hint_of(key, sections)
        if text is None and not accepts(hint, bool):
            raise BadRecipe(f"--{key} needs a value")
        value = "true" if text is None else option_value(text, hint, f"--{key}")
        names = key.split(".")
        if names[0] == "data" and names[1:2] and names[1] in paths:
            value = absolute(value)
        layers.append(Layer(nested(names, value), f"--{key}"))
    return layers


def is_lightning(key: str) -> bool:
    """Whether jsonargparse is to read an option: all of Lightning's sections but the logger."""
    section, _, name = key.partition(".")
    return section in LIGHTNING and name.partition(".")[0] not in ("", "logger")


def hint_of(key: str, sections: Mapping[str, Section]) -> Any:
    """The type of the value at a dotted key; ``Any`` where values of any type may stand.

    Raises:
        BadRecipe: no recipe has this key.
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
    name = found.current(name, f"--{key}")
    if name not in found.hints:
        raise BadRecipe(f"--{key}: {misplaced(sections, name, section)}")
    return found.hint(name, inner)


def accepts(hint: Any, kind: type) -> bool:
    """Whether a value of this type fits."""
    return kind in parts(hint)


def option_value(text: str, hint: Any, origin: str) -> Any:
    """The value that the text of an option stands for; converted to its type later."""
    if text in ("null", "None") and (not is_plain(hint) or accepts(hint, type(None))):
        return None
    if is_plain(hint):
        return text
    if accepts(hint, str) and text[:1] not in ("{", "["):
        return text
    return parse_yaml(text, origin)


def absolute(value: Any) -> Any:
    """A path, or several by name, relative to the working directory so far."""
    if isinstance(value, Mapping):
        return {name: absolute(path) for name, path in value.items()}
    return str(Path(value).expanduser().resolve()) if isinstance(value, str) else value


def nested(names: list[str], value: Any) -> dict[str, Any]:
    """``{"a": {"b": value}}`` of the names ``["a", "b"]``."""
    for name in reversed(names):
        value = {name: value}
    return value  # type: ignore[no-any-return]
