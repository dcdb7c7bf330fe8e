"""The configuration of a training: files and options, merged to one value a key, whose origin is
known, and converted to types; then checked by the constructors that take them.

The keys of a recipe, with types and defaults, are the arguments of constructors. Later sources
override earlier ones: the recipe's base, the recipe, files of ``--config``, options. Components are
merged by name: an option without a name (``--model.norm.eps 1e-6``) is added to the component of
the earlier sources; another name replaces the component together with its options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args, get_origin

from tfzoo.base import memory
from tfzoo.base.arguments import arguments
from tfzoo.base.registry import registry
from tfzoo.base.values import check_range, convert, members
from tfzoo.config.files import TOP, Option, Source
from tfzoo.config.lightning import CLASSES, as_list, as_mapping, check_classes
from tfzoo.config.start import Start, find_task, start_from
from tfzoo.data.remote import is_address
from tfzoo.data.source import is_saved
from tfzoo.errors import BadRecipe, TfzooError, did_you_mean, listing
from tfzoo.models.architectures import options_like
from tfzoo.models.options import option_types

DEFAULTS = {"seed": 0, "timeout": 1800.0, "explain": False}
RANGES: dict[str, dict[str, Any]] = {
    "seed": {"ge": 0, "le": 2**32 - 1},
    "timeout": {"ge": 1, "le": 2**31},
    "train_tokens": {"ge": 1, "le": 2**63 - 1},
    "samples": {"ge": 0, "le": 10_000},
    "trainer.accumulate_grad_batches": {"ge": 1},
    "trainer.num_nodes": {"ge": 1, "le": 100_000},
    "trainer.check_val_every_n_epoch": {"ge": 1},
    "trainer.val_check_interval": {"gt": 0},
    "trainer.gradient_clip_val": {"ge": 0},
    "trainer.log_every_n_steps": {"ge": 0},
}
"""The bounds of numbers that no constructor checks, as of
:func:`~tfzoo.base.values.check_range`.
"""
LIGHTNING = frozenset({"trainer", "checkpoint"})
"""The sections of Lightning's ``Trainer`` and ``ModelCheckpoint``."""
FOLDER_ARGUMENTS = frozenset({"dirpath", "default_root_dir"})
"""Arguments of Lightning that tfzoo sets to the run's folder; a recipe cannot set them."""
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
SPLITS = ("train", "val", "test")
"""The keys of the section ``data`` whose values are paths, unless :func:`splits_have_names`."""
FIRST = ("model.like", "data.name", "data.root", "trainer.callbacks")
"""The options that are merged first, as they change what others mean."""
SHARDING = re.compile("fsdp|deepspeed|modelparallel", re.IGNORECASE)
"""In the names of strategies by which each process holds a part of each parameter."""
OPEN = ("explain/", "train/expert_share/")
"""Beginnings of the names of metrics that depend on the model."""


@dataclass(frozen=True)
class Section:
    """One section of a recipe.

    Args:
        cls: the class whose constructor arguments are the keys.
        hints: the type of each key.
        defaults: the default of each key that has one.
        slots: the kind of component of each key that takes one.
        parts: the keys whose values are dicts with keys of the same section, which override them
            for a part of the model, as in ``model: {norm: layer, encoder: {norm: batch}}``.
        supplied: the arguments of ``cls`` that a recipe cannot set.
    """

    cls: type
    hints: Mapping[str, Any]
    defaults: Mapping[str, Any]
    slots: Mapping[str, str]
    parts: frozenset[str]
    supplied: frozenset[str] = frozenset()

    def takes_class(self, key: str) -> bool:
        """Whether the value of a key is a class of Lightning's, or a list of them."""
        return key in CLASSES and self.cls.__module__.startswith("lightning.")

    def type_of(self, key: str, *inner: str) -> Any:
        """The type of a key, or of a key within its value: ``str`` for an option of a component,
        which the registry converts later; ``Any`` if it is not known.
        """
        hint = self.hints.get(key, Any)
        if inner and key in self.slots:
            return str
        if inner and key in self.parts:
            return self.type_of(*inner)
        values = [get_args(one)[1] for one in members(hint) if get_origin(one) is dict]
        return hint if not inner else values[0] if values else Any

    def merged(self, key: str, earlier: Any, later: Any) -> Any:
        """The value of a key of two sources, of which the later one overrides the earlier one."""
        if key in self.slots:
            return merge_spec(earlier, later)
        if self.takes_class(key):
            return merge_class(earlier, later)
        if not isinstance(earlier, Mapping) or not isinstance(later, Mapping):
            return later
        if key in self.parts:
            later = {
                name: self.merged(name, earlier.get(name), inner) for name, inner in later.items()
            }
        return {**earlier, **later}

    def converted(self, values: Mapping[str, Any], key: str, path: str) -> Any:
        """The value of a key, converted: the spec of a component; the options of a part of the
        model, such as ``encoder: {norm: batch}``; a class of Lightning's; or a value of the key's
        type. ``path`` is the key in the recipe.
        """
        value, hint = values[key], self.hints.get(key, Any)
        if key in self.parts and isinstance(value, Mapping):
            # Options without a name, `encoder: {norm: {eps: 1e-6}}`, belong to model.norm; the norm
            # of `query_key_norm`, an option of layers, is another one.
            inherits = self.slots if key not in option_types() else {}
            own = {
                inner: merge_spec(values[inner], spec) if inner in inherits else spec
                for inner, spec in value.items()
            }
            return {inner: self.converted(own, inner, f"{path}.{inner}") for inner in own}
        with about(path):
            if self.takes_class(key):
                return check_classes(key, value)
            if key in self.slots and not (value is None and type(None) in members(hint)):
                entry, options = registry(self.slots[key]).options(value)
                return {"name": entry.name, **options} if options else entry.name
            return convert_value(value, hint, path)


def sections(task: Any) -> dict[str, Section]:
    """Return the sections of a task: ``model``, ``data``, its settings such as ``optim``, and
    Lightning's ``trainer`` and ``checkpoint``.
    """
    from lightning.pytorch import Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

    classes = {"model": task.Model, "data": task.Data, **task.settings()}
    classes |= {"trainer": Trainer, "checkpoint": ModelCheckpoint}
    supplied = {"model": frozenset(task.model_arguments()), "data": frozenset({"seed"})}
    supplied |= dict.fromkeys(LIGHTNING, FOLDER_ARGUMENTS)
    own = {key: make_section(cls, supplied.get(key, frozenset())) for key, cls in classes.items()}
    if not task.smooths_labels:
        changed = {**own["optim"].defaults, "label_smoothing": 0.0}
        own["optim"] = replace(own["optim"], defaults=changed)
    return own


@cache
def make_section(cls: type, supplied: frozenset[str]) -> Section:
    """Return the section whose keys are the arguments of ``cls``, except ``supplied``."""
    taken = {key: one for key, one in arguments(cls).items() if key not in supplied}
    hints = {key: one.annotation for key, one in taken.items()}
    slots = {
        key: slot.kind
        for key, hint in hints.items()
        for part in (hint, *get_args(hint))
        for slot in getattr(part, "__metadata__", ())
    }
    defaults = {key: one.default for key, one in taken.items() if one.default is not one.empty}
    parts = {key for key, hint in hints.items() if dict[str, Any] in members(hint)} - {*slots}
    return Section(cls, hints, defaults, slots, frozenset(parts), supplied)


def merge_spec(earlier: Any, later: Any, name: str = "name") -> Any:
    """Merge two specs of a component: options are merged if both name the same component."""
    if not isinstance(later, str | Mapping) or not isinstance(earlier, str | Mapping):
        return later
    old, new = as_mapping(earlier, name), as_mapping(later, name)
    return {**old, **new} if new.get(name, old.get(name)) == old.get(name) else later


def merge_class(earlier: Any, later: Any) -> Any:
    """Merge a class of Lightning's, or options without a class, into an earlier one; if that is a
    list of classes, into the last one. Another class, or a list, replaces it.
    """
    if not isinstance(later, Mapping):
        return later
    *others, last = as_list(earlier) or [None]
    merged = merge_spec(last, later, "class_path")
    return [*others, merged] if isinstance(earlier, list) and merged is not later else merged


def convert_value(value: Any, hint: Any, key: str) -> Any:
    """Convert the value of a key to the type ``hint``, and check its range. Times stay texts, as a
    recipe holds them.
    """
    try:
        converted = convert(value, hint)
    except ValueError as error:
        raise BadRecipe(f"{key} {error}", key=key) from None
    if key in RANGES and isinstance(converted, int | float):
        check_range(key, converted, **RANGES[key])
    return value if isinstance(converted, timedelta) else converted


@contextmanager
def about(key: str) -> Iterator[None]:
    """Context in which the messages of errors begin with a key, or with the key within it that they
    are about.
    """
    try:
        yield
    except TfzooError as error:
        said, inner = str(error), error.key.removeprefix(f"{key}.")
        error.key = key if inner in ("", key) else f"{key}.{inner}"
        if not said.startswith((f"{key}.", f"{key}=", f"{key} ", f"{key}:")):
            dot = "." if inner and said.startswith(inner) else ": "
            error.args = (f"{key}{dot}{said}",)
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise BadRecipe(f"{key}: {' '.join(str(error).split())[:300]}", key=key) from None


def unknown(known: Mapping[str, Section], key: str, section: str = "") -> str:
    """The error message for a key that is unknown, or that is not a key of ``section``."""
    what = f"{section} has no key {key!r}." if section else f"no section {key!r}."
    every = {"": [*TOP, *known], **{name: [*one.hints] for name, one in known.items()}}
    places = {section: every[section], **every}
    likely = SYNONYMS.get(key, key)
    exact = {name: [likely] for name, keys in places.items() if likely in keys}
    if not exact and any(key in one.supplied for one in known.values()):
        return (
            f"`{key}` cannot be set in a recipe: vocabulary sizes and classes follow from the "
            "tokenizer and the data, the folder from --run"
        )
    for name, keys in (exact or places).items():
        if close := did_you_mean(likely, keys, f"{name}." if name not in ("", section) else ""):
            return what + (f"{close[:-1]}, at the top?" if section and not name else close)
    return f"{what} Known: {listing(places[section], 40)}"


@dataclass
class Config:
    """A configuration.

    Args:
        name: the name of the recipe's file, without its suffix.
        task: the class of the task.
        sections: what each section of its recipe may hold.
        start: what training starts with, if not with new weights.
        recipe: every value, as plain values. ``--print-config`` prints it, and ``config.yaml`` in
            the run's folder holds it.
        origins: the file or option that set each dotted key last.
        data: the data module of the section ``data``; None if it was not made.
    """

    name: str
    task: Any
    sections: Mapping[str, Section]
    start: Start | None = None
    recipe: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    data: Any = None
    like: str = ""
    """The origin of the options that the last ``like`` set."""

    @classmethod
    def read(
        cls,
        files: Sequence[Source],
        overrides: Sequence[Source] = (),
        run: str | None = None,
        make_data: bool = True,
    ) -> Config:
        """The configuration of a recipe's files and of the files and options that override it.

        ``run`` is the folder of a run that goes on, see
        :func:`~tfzoo.config.start.start_from`. The constructors of all sections are called, because
        they check ranges and combinations; without ``make_data``, that of ``data`` is not, and a
        recipe may lack paths that ``data`` requires. No data is read.

        Raises:
            BadRecipe, BadOption, UnknownName, Clash: one line that names the mistake and the file
                or option that it is in.
            BadRun: what it starts from is not there or cannot be read.
        """
        sources = [*files, *overrides]
        task = find_task(sources)
        sources, start = start_from(sources, len(files), task, run)
        config = cls(Path(files[-1].origin).stem, task, sections(task), start)
        try:
            for source in sorted(sources, key=order):
                config.merge(source)
            config.convert()
            config.check_meaning()
            config.construct(make_data)
        except TfzooError as error:
            if origin := config.origin(error.key):
                said = f"--{error}"
                if not said.startswith(origin):  # which it names already
                    own = origin.startswith("--") and f"{error.key}: "
                    said = f"{origin}: {str(error).removeprefix(own or '')}"
                error.args = (said,)
            raise
        return config

    @property
    def defaults(self) -> dict[str, Mapping[str, Any]]:
        """Those of each section but Lightning's, whose recipe holds no defaults."""
        return {key: one.defaults for key, one in self.sections.items() if key not in LIGHTNING}

    def origin(self, key: str) -> str:
        """Where a key, or the closest that contains it, was set; where a section was set if that is
        one place. ``""`` if it was not.
        """
        while "." in key and key not in self.origins:
            key = key.rpartition(".")[0]
        found = {
            self.origins[one] for one in self.origins if one == key or one.startswith(f"{key}.")
        }
        return self.origins.get(key) or (found.pop() if len(found) == 1 else "")

    def merge(self, source: Source) -> None:
        """Put the values of a source over those of earlier ones.

        In ``model``, ``like`` comes first, so that the other keys override the architecture's
        options.
        """
        values = source.values
        if isinstance(source, Option):
            section, *keys = source.key.split(".")
            known = self.sections.get(section)
            hint = known.type_of(*keys) if known and keys else TOP.get(section, Any)
            values = source.of_type(hint)
        for name, value in values.items():
            if name in TOP:
                self.recipe[name], self.origins[name] = value, source.origin
                continue
            if name not in self.sections or not isinstance(value, Mapping | None):
                self.origins[name] = source.origin
                raise BadRecipe(
                    f"{name} is a section of keys, not {value!r}"
                    if name in self.sections
                    else unknown(self.sections, name),
                    key=name,
                )
            for key in sorted(value or {}, key=lambda key: key != "like"):
                self.set(name, key, (value or {})[key], source)

    def set(self, name: str, key: str, value: Any, source: Source) -> None:
        """Set a key of a section, or merge a component or a mapping into what is there. Paths of
        data in options start at the working directory, and an option with a ``+`` adds to a list.
        """
        path, section = f"{name}.{key}", self.sections[name]
        values = self.recipe.setdefault(name, {})
        self.origins[path] = source.origin
        if key not in section.hints:
            raise BadRecipe(unknown(self.sections, key, name), key=path)
        if path == "model.like":
            if value is not None:
                self.be_like(value, source.origin)
            return
        before = values.get(key, section.defaults.get(key))
        if isinstance(source, Option):
            if name == "data" and key in SPLITS and not splits_have_names(values):
                value = absolute_path(value)
            if source.adds:
                value = [*as_list(before), value]
        values[key] = section.merged(key, before, value)

    def be_like(self, name: Any, origin: str) -> None:
        """Set the options of ``like: NAME`` in the section ``model``, in place of those of an
        earlier ``like``.
        """
        with about("model.like"):
            options = options_like(name, self.sections["model"].cls)
        values = self.recipe["model"]
        for key in [key for key in values if self.origins[f"model.{key}"] == self.like]:
            del values[key], self.origins[f"model.{key}"]
        self.like = f"{origin} (like: {name})"
        values.update(options)
        self.origins |= {f"model.{key}": self.like for key in options}

    def convert(self) -> None:
        """Convert the values of the top level and of all sections. Keys that are not set get their
        defaults, except in Lightning's sections, where they are left out, as are those that are set
        to their defaults. Paths of data become absolute: ``data.root``, or the splits where there
        is none; with ``data.name``, a data set of the Hugging Face hub, splits are names and not
        paths.
        """
        set_here = {key: value for key, value in self.recipe.items() if value is not None}
        given = {**DEFAULTS, **set_here}
        values = {
            key: convert_value(given[key], hint, key) for key, hint in TOP.items() if key in given
        }
        for name, section in self.sections.items():
            own = {**({} if name in LIGHTNING else section.defaults), **self.recipe.get(name, {})}
            values[name] = {
                key: section.converted(own, key, f"{name}.{key}")
                for key in section.hints
                if key in own
            }
        for name in LIGHTNING:
            defaults = {**self.sections[name].defaults, "mode": None}  # here it is max, there min
            values[name] = {key: one for key, one in values[name].items() if one != defaults[key]}
        best = values["checkpoint"]
        if self.task.mode(best.get("monitor") or self.task.monitor) == "min":
            best.setdefault("mode", "min")
        values["model"].pop("like", None)  # its options have been merged
        data = values["data"]
        for key in ("root",) if data.get("root") else () if data.get("name") else SPLITS:
            data |= {key: absolute_path(data[key])} if key in data else {}
        self.recipe = values

    def check_meaning(self) -> None:
        """Check values of which each is of its type, but which together train nothing, or which
        this task does not have.
        """
        trainer = self.recipe["trainer"]
        for key in ("max_steps", "max_epochs", "limit_train_batches"):
            if trainer.get(key) == 0:
                key = f"trainer.{key}"
                raise BadRecipe(f"{key}=0 trains nothing: it must be at least 1", key=key)
        if self.recipe.get("samples") is not None and self.task.samples is None:
            raise BadRecipe(
                f"samples: task {self.task.entry.name!r} prints no texts; leave it out",
                key="samples",
            )
        strategy, callbacks = trainer.get("strategy"), as_list(trainer.get("callbacks"))
        name = str(strategy.get("class_path") if isinstance(strategy, Mapping) else strategy)
        classes = [one["class_path"].rpartition(".")[2] for one in callbacks]
        averages = [one for one in classes if one.endswith("WeightAveraging")]
        averages += ["optim.average"] if self.recipe["optim"].get("average") else []
        if len(averages) > 1:
            raise BadRecipe(f"both {listing(averages)} average the weights: leave one of them out")
        if averages and SHARDING.search(name):
            raise BadRecipe(
                f"trainer.strategy {name} shards the weights, of which {averages[0]} keeps a copy: "
                "leave one of them out",
                key="trainer.strategy",
            )
        self.check_monitors(callbacks)

    def check_monitors(self, callbacks: Sequence[Mapping[str, Any]]) -> None:
        """Check that the task logs what ``checkpoint`` and callbacks monitor, and that no score is
        monitored in the wrong direction. Nothing is known of that where a callback of another
        package may log more.
        """
        if not all(callback["class_path"].startswith("lightning.") for callback in callbacks):
            return
        best, known = self.recipe["checkpoint"], self.task.logged_names()
        monitors = [("checkpoint", best.get("monitor") or self.task.monitor, best.get("mode"))]
        for callback in callbacks:
            options = callback.get("init_args") or {}
            mode = options.get("mode", "min")  # Lightning's default
            monitors.append(("trainer.callbacks", options.get("monitor"), mode))
        for key, name, mode in monitors:
            if name and name not in known and not name.startswith(OPEN):
                key = f"{key}.monitor"
                raise BadRecipe(
                    f"{key}: no metric {name!r}.{did_you_mean(name, known)} "
                    f"Known: {listing(known, 30)}",
                    key=key,
                )
            if name and mode:
                with about(f"{key}.mode"):
                    self.task.check_mode(name, mode)

    def construct(self, make_data: bool) -> None:
        """Call the constructors of all sections except Lightning's, and of ``data`` if
        ``make_data``. The model is built on the ``meta`` device, which allocates no memory, with
        placeholders for the sizes that follow from the data.
        """
        values = self.recipe
        supplied = {
            "model": self.task.model_arguments(data=values["data"]),
            "data": {"seed": values["seed"]},
        }
        model: Any = None
        for name, section in self.sections.items():
            if name in LIGHTNING or (name == "data" and not make_data):
                continue
            make = partial(section.cls, **supplied.get(name, {}))
            with about(name):
                if name == "model":
                    model = memory.without_data(make, values[name])
                    self.task.check_model(model)
                    continue
                made = make(**values[name])
                if check := getattr(made, "check_model", None):
                    check(model)
                if name == "optim":
                    self.task.check_optim(made, default=0.0)
                if name == "data":
                    self.data = made


def order(source: Source) -> int:
    """When a source is merged: files before options, a component before its options, whatever their
    order on the command line; but options of a callback belong to the callback before them.
    """
    if not isinstance(source, Option):
        return -1
    return 0 if source.key.startswith(FIRST) else source.key.count(".")


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
