"""Merge the sources of a configuration. Later ones override earlier ones.

The order is: defaults of constructors, the recipe, ``--config`` files, command-line options.
Components are merged by name: an option without a name (``--model.norm.eps 1e-6``) is added to the
component of the earlier sources; another name replaces the component together with its options.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfzoo.base.values import is_plain, members
from tfzoo.config.lightning import CLASSES, as_list
from tfzoo.config.sections import TOP, Section, sections
from tfzoo.config.sources import ConfigSource, Option, Source, nested
from tfzoo.data.remote import is_address
from tfzoo.data.source import is_saved
from tfzoo.errors import BadRecipe, did_you_mean, listing, within
from tfzoo.models.architectures import options_like

SPLITS = ("train", "val", "test")
"""The keys of the section ``data`` whose values are paths, unless :func:`splits_have_names`."""

DATASET_KEYS = ("data.name", "data.root", "data.dataset")
"""The options that name a data set or folder in which splits are looked up."""

CALLBACKS = "trainer.callbacks"


class Origins(dict[str, str]):
    """The origin of each dotted key: the file or option that set it last. Messages name it."""

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


def merge(task: Any, sources: Sequence[Source]) -> Merged:
    """Merge sources.

    Raises:
        BadRecipe: a key that is unknown, in the wrong section, or without its value.
    """
    merged = Merged(sections(task))
    for source in sorted(sources, key=merge_order):
        merged.add(source)
    return merged


def merge_order(source: Source) -> int:
    """When a source is merged: files before options, a component before its options, whatever their
    order on the command line. Options of a callback belong to the callback before them, and what
    splits mean follows from the data set.
    """
    if isinstance(source, ConfigSource):
        return -1
    first = source.key in ("model.like", *DATASET_KEYS) or source.key.startswith(CALLBACKS)
    return 0 if first else source.key.count(".")


@dataclass
class Merged:
    """Merged sources: nested values, and the origin of each key."""

    sections: Mapping[str, Section]
    values: dict[str, Any] = field(default_factory=dict)
    origins: Origins = field(default_factory=Origins)
    like_origin: str = ""
    """The origin of the options that the last ``like`` set."""

    def add(self, source: Source) -> None:
        """Merge a source, which overrides earlier ones.

        In ``model``, ``like`` is merged first, so that the other keys override the architecture's
        options.

        Raises:
            BadRecipe: a key that is unknown, or in the wrong section.
        """
        origin = source.origin
        for key, value in self._values_of(source).items():
            if key in TOP:
                self.values[key], self.origins[key] = value, origin
            elif key not in self.sections:
                raise BadRecipe(f"{origin}: {misplaced(self.sections, key)}")
            elif not isinstance(value, Mapping | None):
                raise BadRecipe(f"{origin}: {key} is a section of keys, not {value!r}")
            else:
                keys = {str(name): inner for name, inner in (value or {}).items()}
                if "like" in keys and key == "model":
                    self._add_architecture(keys.pop("like"), origin)
                for name, inner in keys.items():
                    self._add_key(key, name, inner, origin)

    def _values_of(self, source: Source) -> Mapping[str, Any]:
        """The nested values of a source. Paths of data on a command line start at the working
        directory, and an option with a ``+`` adds to a list.
        """
        if isinstance(source, ConfigSource):
            return source.values
        section, key, *_ = [*source.key.split("."), ""]
        value = self._value_of(source)
        if section == "data" and key in SPLITS:
            value = (
                value if splits_have_names(self.values.get("data", {})) else absolute_path(value)
            )
        if source.adds and key:
            value = [*as_list(self.values.get(section, {}).get(key)), value]
        return nested(source.key, value)

    def _value_of(self, option: Option) -> Any:
        """The value of an option: the text as it was typed if the key takes a string, or if YAML
        reads the text as another type than the key's (it is converted later); otherwise the text
        parsed as YAML.

        Raises:
            BadRecipe: no value, and the key is no boolean.
        """
        first, *inner = option.key.split(".")
        section = self.sections.get(first)
        hint = TOP.get(first, Any) if section is None else section.type_of(inner)
        kinds = members(hint)
        if option.text is None and bool not in kinds and hint is not Any:
            raise BadRecipe(f"--{option.key} needs a value")
        value, text = option.value, option.text
        if text in ("null", "None"):
            return text if is_plain(hint) and type(None) not in kinds else None
        if type(value) in kinds and not isinstance(value, str):
            return value
        if is_plain(hint):
            return text
        return text if str in kinds and not isinstance(value, list | dict) else value

    def _add_architecture(self, name: Any, origin: str) -> None:
        """Set the options of ``like: NAME`` in the section ``model``, in place of those of an
        earlier ``like``.
        """
        if name is None:
            return
        with within(origin if origin == "--model.like" else f"{origin}: model.like"):
            options = options_like(name, self.sections["model"].cls)
        values = self.values.setdefault("model", {})
        earlier = [key for key in values if self.origins.get(f"model.{key}") == self.like_origin]
        for key in earlier:
            del values[key], self.origins[f"model.{key}"]
        self.like_origin = f"{origin} (like: {name})"
        values.update(options)
        self.origins.update({f"model.{key}": self.like_origin for key in options})

    def _add_key(self, section: str, key: str, value: Any, origin: str) -> None:
        known, values = self.sections[section], self.values.setdefault(section, {})
        if key not in known.hints:
            raise BadRecipe(f"{origin}: {misplaced(self.sections, key, section)}")
        self.origins[f"{section}.{key}"] = origin
        before = values.get(key, known.defaults.get(key))
        if key in known.slots:
            values[key] = merge_spec(before, value)
        elif section == "trainer" and key in CLASSES:
            values[key] = merge_class(before, value)
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


def merge_class(earlier: Any, later: Any) -> Any:
    """Merge a class of Lightning's, ``{class_path: ..., init_args: ...}`` or its name, into an
    earlier one. Options without a class are merged into those of the earlier class; if that is a
    list of classes, of the last one.
    """
    if not isinstance(later, Mapping):
        return later
    if not later.keys() & {"class_path", "init_args", "dict_kwargs"}:
        later = {"init_args": dict(later)}
    *others, last = as_list(earlier) or [None]
    old: Any = {"class_path": last} if isinstance(last, str) else last
    if not isinstance(old, Mapping) or later.get("class_path") not in (None, old.get("class_path")):
        return later
    options = {**old.get("init_args", {}), **later.get("init_args", {})}
    merged = {**old, **later, "init_args": options}
    return [*others, merged] if isinstance(earlier, list) else merged


def splits_have_names(data: Mapping[str, Any]) -> bool:
    """Whether the values of :data:`SPLITS` are names of splits and not paths: in a data set of the
    Hugging Face hub, or in a folder that its ``save_to_disk`` wrote. ``data`` is the section.
    """
    folder = data.get("root")
    saved = isinstance(folder, str) and is_saved(Path(folder).expanduser())
    return saved or bool(data.get("name"))


def absolute_path(value: Any) -> Any:
    """Make a path, or each path of a mapping or list, absolute. Relative paths start at the working
    directory; addresses stay as they are.
    """
    if isinstance(value, Mapping):
        return {name: absolute_path(path) for name, path in value.items()}
    if isinstance(value, list):
        return [absolute_path(path) for path in value]
    if not isinstance(value, str) or is_address(value):
        return value
    return str(Path(value).expanduser().resolve())


SYNONYMS = {
    "batch_size": "max_tokens",
    "d_model": "dim",
    "epochs": "max_epochs",
    "gpus": "devices",
    "hidden_size": "dim",
    "learning_rate": "lr",
    "name": "optimizer",
}
"""Names that other libraries use, and the keys that are suggested for them."""


def misplaced(known: Mapping[str, Section], key: str, within: str = "") -> str:
    """Return the error message for a key that is unknown, or that is not a key of ``within``."""
    homes = [name for name, section in known.items() if key in section.hints and name != within]
    here: Collection[str] = known[within].hints if within else [*known, *TOP]
    likely = SYNONYMS.get(key)
    if likely in here:
        return f"{within} has no key {key!r}. Did you mean {likely!r}?"
    if key in TOP:
        return f"`{key}` belongs at the top, not under `{within}`"
    if key in known:
        return f"`{key}` is a section of its own, not a key of `{within}`"
    if homes:
        places = " or ".join(f"`{home}`" for home in homes)
        return f"`{key}` belongs under {places}{within and f', not under `{within}`'}"
    if any(key in section.supplied for section in known.values()):
        return (
            f"`{key}` cannot be set in a recipe: vocabulary sizes and classes follow from the "
            "tokenizer and the data, the folder from --run"
        )
    what = f"{within} has no key {key!r}." if within else f"no section {key!r}."
    for name, section in known.items():
        if likely in section.hints:
            return f"{what} Did you mean {likely!r}, under `{name}`?"
    if close := did_you_mean(key, here):
        return what + close
    for name, section in known.items():
        if close := did_you_mean(key, section.hints):
            return f"{what}{close[:-1]}, under `{name}`?"
    return f"{what} Known: {listing(here, 40)}"
