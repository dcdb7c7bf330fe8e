"""From a recipe and a command line to one resolved configuration, or one line that says what is
wrong.

Layers are laid over each other in order: defaults, the recipe, ``--config`` files, options. A
component's spec keeps its name when only an option of it is given (``--model.norm.eps 1e-6``) and
loses its options when another component is named. Types of trainer and checkpoint are
jsonargparse's and Lightning's to check, all others are the registry's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfzoo.config.arguments import Arguments
from tfzoo.config.loader import parse_yaml, read_yaml
from tfzoo.config.sections import TOP, Section, misplaced, parts, sections, task_class
from tfzoo.config.security import refuse_code
from tfzoo.errors import BadOption, BadRecipe, UnknownName
from tfzoo.registry import registry
from tfzoo.runs.bounds import numbers
from tfzoo.values import convert, is_plain, type_name


@dataclass
class Draft:
    """A configuration while layers are laid over it, and where each key came from."""

    known: Mapping[str, Section]
    values: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    raw: list[str] = field(default_factory=list)

    def lay(self, tree: Mapping[str, Any], where: str) -> None:
        """Lay a tree over what is there. Raises BadRecipe at a key that is unknown or stands in the
        wrong section.
        """
        for key, value in tree.items():
            if key in TOP:
                self.values[key], self.origin[key] = value, where
            elif key not in self.known:
                raise BadRecipe(f"{where}: {misplaced(self.known, key)}")
            elif not isinstance(value, Mapping | None):
                raise BadRecipe(f"{where}: {key} is a section of keys, not {value!r}")
            else:
                for name, inner in (value or {}).items():
                    self.put(key, str(name), inner, where)

    def put(self, section: str, key: str, value: Any, where: str) -> None:
        known, here = self.known[section], self.values.setdefault(section, {})
        key = known.current(key, where)
        if key not in known.hints:
            raise BadRecipe(f"{where}: {misplaced(self.known, key, section)}")
        self.origin[f"{section}.{key}"] = where
        before = here.get(key, known.defaults.get(key))
        if key in known.slots:
            here[key] = overlay(before, value)
        elif (section, key) == ("trainer", "logger"):
            here[key] = logger(before, value)
        elif known.is_side(key) and isinstance(value, Mapping):
            side = before if isinstance(before, Mapping) else {}
            here[key] = {
                **side,
                **{k: overlay(side.get(k), v) if k in known.slots else v for k, v in value.items()},
            }
        else:
            here[key] = (
                {**before, **value}
                if isinstance(before, Mapping) and isinstance(value, Mapping)
                else value
            )

    def option(self, key: str, text: str | None) -> None:
        """One option of the command line."""
        where = f"--{key}"
        section, _, name = key.rstrip("+").partition(".")
        name, *inner = name.split(".")
        if section not in self.known or not name:
            if section not in TOP:
                raise BadRecipe(f"{where}: {misplaced(self.known, section)}")
            self.lay({section: "true" if text is None and TOP[section] is bool else text}, where)
            return
        name = self.known[section].current(name, where)
        if name not in self.known[section].hints:
            raise BadRecipe(f"{where}: {misplaced(self.known, name, section)}")
        hint = self.known[section].hints[name]
        if text is None:
            if bool not in parts(hint):
                raise BadRecipe(f"{where} needs a value")
            text = "true"
        if (
            section in ("trainer", "checkpoint")
            and name != "logger"
            and (inner or key.endswith("+"))
        ):
            self.raw.append(f"{where}={text}")
            self.origin[f"{section}.{name}"] = where
            return
        text_is_value = (
            name in self.known[section].slots
            or bool(inner and inner[0] in self.known[section].slots)
            or is_plain(hint)
        )
        value = (
            parse_yaml(text, where)
            if not text_is_value or text[:1] in "{[" or text in ("null", "None")
            else text
        )
        value = None if value == "None" else value
        for part in reversed(inner):
            value = {part: value}
        self.put(section, name, value, where)

    def settle(self) -> None:
        """Check and convert every value that is not Lightning's. Raises an error that names where
        the value came from.
        """
        for key, hint in TOP.items():
            if key in self.values:
                self.values[key] = self._convert(self.values[key], hint, key)
        for section, known in self.known.items():
            here = self.values.setdefault(section, {})
            for key, value in here.items():
                path = f"{section}.{key}"
                if key in known.slots:
                    here[key] = self._spec(known.slots[key], value, path)
                elif known.is_side(key) and isinstance(value, Mapping):
                    here[key] = {k: self._side(known, here, k, v, path) for k, v in value.items()}
                elif section not in ("trainer", "checkpoint") and is_plain(known.hints[key]):
                    here[key] = self._convert(value, known.hints[key], path)

    def _convert(self, value: Any, hint: Any, path: str) -> Any:
        try:
            return convert(value, hint)
        except ValueError:
            raise BadRecipe(
                f"{self.place(path)}: {path} must be {type_name(hint)}, not {value!r}"
            ) from None

    def _side(
        self, known: Section, main: Mapping[str, Any], key: str, value: Any, path: str
    ) -> Any:
        if key not in known.slots:
            return value
        if (
            isinstance(value, Mapping) and "name" not in value
        ):  # an option alone: of the component of both sides
            value = overlay(main.get(key, known.defaults[key]), value)
        return self._spec(known.slots[key], value, f"{path}.{key}")

    def _spec(self, kind: str, value: Any, path: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, str | Mapping):
            raise BadRecipe(
                f"{self.place(path)}: {kind} wants a name or {{name: ..., ...}}, not {value!r}"
            )
        try:
            entry, options = registry(kind).options(value)
        except (UnknownName, BadOption) as error:
            raise BadRecipe(f"{self.place(path)}: {error}") from None
        return {"name": entry.name, **options} if options else entry.name

    def place(self, path: str) -> str:
        """Where a key came from: a file, or an option."""
        while path and path not in self.origin:
            path = path.rpartition(".")[0]
        return self.origin.get(path, "recipe")


def overlay(before: Any, given: Any) -> Any:
    """A spec over a spec: an option keeps the name given before, another name drops the old one's
    options.
    """
    if not isinstance(given, str | Mapping) or not isinstance(before, str | Mapping):
        return given
    old = {"name": before} if isinstance(before, str) else dict(before)
    new = {"name": given} if isinstance(given, str) else dict(given)
    return {**old, **new} if new.get("name", old.get("name")) == old.get("name") else new


def logger(before: Any, given: Any) -> Any:
    """Loggers by class, with the options that were given so far: ``WandbLogger``, then ``{project:
    mine}``.
    """
    if isinstance(given, list):
        return [logger(None, one) for one in given]
    if isinstance(given, str):
        return {"class_path": given}
    if isinstance(given, Mapping) and not given.keys() & {"class_path", "init_args"}:
        given = {"init_args": dict(given)}
    if (
        isinstance(given, Mapping)
        and isinstance(before, Mapping)
        and given.get("class_path") in (None, before.get("class_path"))
    ):
        return {
            **before,
            **given,
            "init_args": {**before.get("init_args", {}), **given.get("init_args", {})},
        }
    return given


def draft(
    layers: Sequence[tuple[Mapping[str, Any], str]], arguments: Arguments, trust: bool
) -> tuple[Any, Draft]:
    """The task and the settled configuration of layers and options.

    Nothing that a layer names is imported before all of them were policed; ``trust`` leaves that
    out.
    """
    layers = [
        *layers,
        *((config(value), str(value)) for key, value in arguments.options if key == "config"),
    ]
    options = [(key, value) for key, value in arguments.options if key != "config"]
    given = [
        *layers,
        *(
            (nested(key.rstrip("+"), parse_yaml(value or "", f"--{key}")), f"--{key}")
            for key, value in options
        ),
    ]
    for tree, where in given:
        numbers(tree, where)
        if not trust:
            refuse_code(tree, where)
    name = next((value for key, value in reversed(options) if key == "task"), None)
    named = [(tree["task"], where) for tree, where in layers if "task" in tree]
    try:
        task = task_class(name or (named[-1][0] if named else None))
    except BadRecipe as error:
        raise BadRecipe(f"{'--task' if name else (named or layers)[-1][1]}: {error}") from None
    result = Draft(sections(task))
    for tree, where in layers:
        result.lay(tree, where)
    for key, value in options:
        result.option(key, value)
    result.settle()
    return task, result


def config(value: str | None) -> dict[str, Any]:
    """The tree of a ``--config`` file; addresses are refused."""
    if not value:
        raise BadRecipe("--config needs the path of a YAML file")
    if re.match(r"^\w+:", value) and not Path(value).exists():
        raise BadRecipe(
            f"--config reads files alone, not {value!r}: download it, look at it, then give its path"
        )
    return read_yaml(Path(value))


def nested(path: str, value: Any) -> dict[str, Any]:
    """``{"a": {"b": value}}`` for ``a.b``."""
    for part in reversed(path.split(".")):
        value = {part: value}
    return value  # type: ignore[no-any-return]


def absolute(values: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the paths of its data made absolute, so that it runs from anywhere."""

    def place(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: place(inner) for key, inner in value.items()}
        return str(Path(value).expanduser().resolve()) if isinstance(value, str) else value

    data = values.get("data", {})
    splits = (
        () if data.get("name") else ("train", "val", "test")
    )  # of a named data set, they are names too
    paths = ("root",) if data.get("root") else splits  # these are relative to a root that is given
    return {
        **values,
        "data": {key: place(value) if key in paths else value for key, value in data.items()},
    }
