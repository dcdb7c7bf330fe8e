"""The configuration of a training: files and options, merged to one value a key, whose origin is
known, and converted to types; then checked by the constructors that take them.

The keys of a recipe, with types and defaults, are the arguments of constructors. Later sources
override earlier ones: the recipe's base, the recipe, files of ``--config``, options. Components are
merged by name: an option without a name (``--model.norm.eps 1e-6``) is added to the component of
the earlier sources; another name replaces the component together with its options.
"""

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Self, get_args, get_origin

from tfzoo.base import memory
from tfzoo.base.registry import registry
from tfzoo.base.values import (
    arguments,
    check_arguments,
    check_range,
    convert,
    is_plain,
    map_leaves,
    members,
    parameters,
    type_name,
)
from tfzoo.config.recipe import (
    CLASSES,
    TOP,
    Option,
    Source,
    nested,
    order,
    task_of,
    with_architecture,
)
from tfzoo.data.remote import is_address
from tfzoo.data.source import is_saved
from tfzoo.errors import BadRecipe, TfzooError, did_you_mean, listing, under
from tfzoo.models.options import option_types

DEFAULTS = {"seed": 0, "timeout": 1800.0, "explain": False}
RANGES: dict[str, dict[str, Any]] = {
    "seed": {"ge": 0, "le": 2**32 - 1},
    "timeout": {"ge": 1, "le": 2**31},
    "train_tokens": {"ge": 1, "le": 2**63 - 1},
    "trainer.accumulate_grad_batches": {"ge": 1},
    "trainer.devices": {"ge": -1, "le": 1024},
    "trainer.num_nodes": {"ge": 1, "le": 100_000},
    "trainer.check_val_every_n_epoch": {"ge": 1},
    "trainer.val_check_interval": {"gt": 0},
    "trainer.gradient_clip_val": {"ge": 0},
    "trainer.log_every_n_steps": {"ge": 0},
}
"""The bounds of numbers that no constructor checks, as of :func:`check_range`."""
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
        """The type of a key, or of a key within its value, as far as it is known: ``str`` for an
        option of a component, which the registry converts later.
        """
        hint = self.hints.get(key, Any)
        if inner and key in self.slots:
            return str
        if inner and key in self.parts:
            return self.type_of(*inner)
        values = [get_args(one)[1] for one in members(hint) if get_origin(one) is dict]
        return hint if not inner else values[0] if values else Any

    def merged(self, key: str, earlier: Any, later: Any) -> Any:
        """The value of a key of two sources, of which the later one overrides the earlier one.

        Options without a name or class are added to the component or class that is there, of a list
        of classes to the last; another name or class, or a list, replaces it.
        """
        if key in self.slots:
            return merge_spec(earlier, later)
        if not isinstance(later, Mapping):
            return later
        if self.takes_class(key):
            if not isinstance(earlier, list) or not earlier:
                return merge_spec(earlier, later, "class_path")
            merged = merge_spec(earlier[-1], later, "class_path")
            return merged if merged is later else [*earlier[:-1], merged]
        if not isinstance(earlier, Mapping):
            return later
        if key in self.parts:
            later = {
                name: self.merged(name, earlier.get(name), inner) for name, inner in later.items()
            }
        return {**earlier, **later}

    def help(self, name: str, recipe: Mapping[str, Any]) -> str:
        """Its keys, below its first sentence, with what the recipe says or by default."""
        values = {**self.defaults, **recipe}
        doc = inspect.getdoc(self.cls) or inspect.getdoc(vars(self.cls)["__init__"]) or ""
        lines = [f"{name}: {plain(doc.partition('. ')[0].partition(chr(10) * 2)[0])}", ""]
        width = min(shutil.get_terminal_size().columns, 100)
        texts = descriptions(self.cls)
        for key, hint in self.hints.items():
            kind = self.slots[key].upper() if key in self.slots else type_name(hint)
            value = values.get(key)
            lines.append(f"  --{name}.{key} {kind}{'' if value is None else f' = {value}'}")
            text = texts.get(key, "")  # of another package, which may not say it
            lines += textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
        for key, kind in [*self.slots.items()][:1]:
            lines += ["", f"Names: tfzoo list {kind}. Options: tfzoo show {kind} NAME, set by"]
            lines += [f"--{name}.{key}.OPTION VALUE; so for each key in capitals."]
        return "\n".join(lines)

    def converted(self, values: Mapping[str, Any], key: str, path: str) -> Any:
        """The value of a key, converted: the spec of a component; the options of a part of the
        model, such as ``encoder: {norm: batch}``; a class of Lightning's; or a value of the key's
        type. ``path`` is the key in the recipe.
        """
        value, hint = values[key], self.hints.get(key, Any)
        if key in self.parts and isinstance(value, Mapping):
            # `encoder: {norm: {eps: 1e-6}}` adds to model.norm; that of `query_key_norm` is another
            # one.
            inherits = self.slots if key not in option_types() else {}
            own = {
                inner: merge_spec(values[inner], spec) if inner in inherits else spec
                for inner, spec in value.items()
            }
            return {inner: self.converted(own, inner, f"{path}.{inner}") for inner in own}
        with under(path):
            if self.takes_class(key):
                return check_classes(key, value)
            if key in self.slots and not (value is None and type(None) in members(hint)):
                entry, options = registry(self.slots[key]).options(value)
                return {"name": entry.name, **options} if options else entry.name
        return convert_value(value, hint, path)


def sections(task: Any) -> dict[str, Section]:
    """Those of a task: ``model``, ``data``, settings such as ``optim``; and Lightning's."""
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
    before = as_mapping(earlier, name)
    merged = {**before, **as_mapping(later, name)}
    return merged if merged.get(name) == before.get(name) else later


def convert_value(value: Any, hint: Any, key: str, name: str = "") -> Any:
    """Convert the value of a key, or of what has a ``name`` below one, to the type ``hint``, and
    check its range. Times stay texts, as a recipe holds them.
    """
    try:
        converted = convert(value, hint)
    except ValueError as error:
        raise BadRecipe(f"{name} {error}", key=key) from None
    if key in RANGES and isinstance(converted, int | float):
        check_range(key, converted, **RANGES[key])
    return value if isinstance(converted, timedelta) else converted


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
        start: the :class:`~tfzoo.training.start.Start` of training; None: new weights.
        recipe: every value, as plain values. ``--print-config`` prints it, and ``config.yaml`` in
            the run's folder holds it.
        origins: the file or option that set each dotted key last.
    """

    name: str
    task: Any
    sections: Mapping[str, Section]
    start: Any = None
    recipe: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, files: Sequence[Source], overrides: Sequence[Source] = (), start: Any = None
    ) -> Self:
        """The configuration that a recipe's ``files`` say, with files and options that override
        them. What ``from`` stands for is among them if :func:`tfzoo.training.start.begin`
        has put it there.

        Raises:
            BadRecipe, BadOption, UnknownName, Clash: one line that names the mistake and the file
                or option that it is in.
        """
        sources = [*files, *sorted(overrides, key=order)]
        task = task_of(sources)
        config = cls(Path(files[-1].origin).stem, task, sections(task), start)
        for source in with_architecture(sources, task):
            config.merge(source)
        with config.naming_origins():
            config.convert()
            config.check_meaning()
            config.construct()
        return config

    def make_data(self) -> Any:
        """The data module of the section ``data``, which reads nothing yet. Errors are those of
        :meth:`parse`, also for a path that is missing.
        """
        with self.naming_origins(), constructing("data"):
            return self.sections["data"].cls(seed=self.recipe["seed"], **self.recipe["data"])

    @property
    def defaults(self) -> dict[str, Mapping[str, Any]]:
        """Those of each section but Lightning's, whose recipe holds no defaults."""
        return {key: one.defaults for key, one in self.sections.items() if key not in LIGHTNING}

    def origin(self, key: str) -> str:
        """Where a key, or the closest that contains it, was set; of a section, if that is one
        place. ``""`` if it was not.
        """
        while "." in key and key not in self.origins:
            key = key.rpartition(".")[0]
        found = {
            self.origins[one] for one in self.origins if one == key or one.startswith(f"{key}.")
        }
        return self.origins.get(key) or (found.pop() if len(found) == 1 else "")

    @contextmanager
    def naming_origins(self) -> Iterator[None]:
        """Context in which the message of an error begins with the file or option it is about."""
        try:
            yield
        except TfzooError as error:
            origin, key, said = self.origin(error.key), f"--{error.key}", str(error)
            if origin and key.startswith(origin):
                said = f"--{said}"
            elif origin:
                said = origin + (error.args[0] if origin.startswith(key) else f": {said}")
            error.args, error.key = (said,), ""
            raise

    def merge(self, source: Source) -> None:
        """Put the values of a source over those of earlier ones."""
        values = self.typed(source) if isinstance(source, Option) else source.values
        for name, value in values.items():
            if name in TOP:
                self.recipe[name], self.origins[name] = value, source.origin
                continue
            if name not in self.sections:
                raise BadRecipe(f"{source.origin}: {unknown(self.sections, name)}")
            if not isinstance(value, Mapping | None):
                raise BadRecipe(f"{source.origin}: {name} is a section of keys, not {value!r}")
            for key, inner in (value or {}).items():
                self.set(name, key, inner, source)

    def set(self, name: str, key: str, value: Any, source: Source) -> None:
        """Set a key of a section, or merge a component or a mapping into what is there. Paths of
        data in options start at the working directory, and an option with a ``+`` adds to a list.
        """
        section = self.sections[name]
        values = self.recipe.setdefault(name, {})
        if key not in section.hints:
            raise BadRecipe(f"{source.origin}: {unknown(self.sections, key, name)}")
        earlier = values.get(key, section.defaults.get(key))
        if isinstance(source, Option):
            if name == "data" and key in SPLITS and not splits_have_names(values):
                value, other = map_leaves(absolute_path, value), self.origins.get(f"data.{key}", "")
                mixed = isinstance(earlier, Mapping) != isinstance(value, Mapping)
                if mixed and other.startswith("--"):
                    raise BadRecipe(f"{other} and {source.origin}: name both, as --data.{key}.NAME")
            if source.adds:
                value = [*as_list(earlier), value]
        values[key] = section.merged(key, earlier, value)
        self.origins[f"{name}.{key}"] = source.origin

    def typed(self, option: Option) -> dict[str, Any]:
        """The value of an option, as a recipe nests it: the text as it was typed if the key takes a
        string, or if YAML reads the text as another type than the key's (it is converted later);
        otherwise the text parsed as YAML.
        """
        name, *keys = option.key.split(".")
        section = self.sections.get(name)
        hint = section.type_of(*keys) if section and keys else TOP.get(name, Any)
        kinds, value = members(hint), option.value
        if option.text is None and bool not in kinds and hint is not Any:
            raise BadRecipe(f"--{option.key} needs a value")
        if option.text in ("null", "None"):
            value = option.text if is_plain(hint) and type(None) not in kinds else None
        elif type(value) not in kinds or isinstance(value, str):
            is_text = is_plain(hint) or (str in kinds and not isinstance(value, list | dict))
            value = option.text if is_text else value
        return nested(option.key, value)

    def convert(self) -> None:
        """Convert the values of the top level and of all sections. Keys that are not set get their
        defaults; in Lightning's sections, defaults are left out. Paths of data become absolute:
        ``data.root``, or the splits where there is none and they have no names.
        """
        top = {**DEFAULTS, **{key: one for key, one in self.recipe.items() if one is not None}}
        values = {key: convert_value(top[key], TOP[key], key) for key in TOP if key in top}
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
        values["model"].pop("like", None)  # its options are among the others
        data = values["data"]
        for key in ("root",) if data.get("root") else () if data.get("name") else SPLITS:
            data |= {key: map_leaves(absolute_path, data[key])} if key in data else {}
        self.recipe = values

    def check_meaning(self) -> None:
        """Check values of the right types with which nothing is trained."""
        trainer = self.recipe["trainer"]
        for key in ("max_steps", "max_epochs", "limit_train_batches"):
            if trainer.get(key) == 0:
                key = f"trainer.{key}"
                raise BadRecipe("=0 trains nothing: it must be at least 1", key=key)
        devices = str(trainer.get("devices", "auto"))
        if not re.fullmatch(r"auto|[-\d, \[\]]+", devices):
            said = f" must be a number, a list of numbers, or auto, not {devices!r}"
            raise BadRecipe(said, key="trainer.devices")
        strategy, callbacks = trainer.get("strategy"), as_list(trainer.get("callbacks"))
        name = str(strategy.get("class_path") if isinstance(strategy, Mapping) else strategy)
        classes = [one["class_path"].rpartition(".")[2] for one in callbacks]
        averages = [one for one in classes if one.endswith("WeightAveraging")]
        averages += ["optim.average"] if self.recipe["optim"].get("average") else []
        if averages and SHARDING.search(name):
            raise BadRecipe(
                f" {name} shards the weights, of which {averages[0]} keeps a copy: "
                "leave one of them out",
                key="trainer.strategy",
            )
        self.check_monitors(callbacks)

    def check_monitors(self, callbacks: Sequence[Mapping[str, Any]]) -> None:
        """Check that the task logs what ``checkpoint`` and callbacks monitor, and that a direction
        is the score's. A callback of another package may log more: then nothing is known.
        """
        if not all(callback["class_path"].startswith("lightning.") for callback in callbacks):
            return
        best, known = self.recipe["checkpoint"], self.task.logged_names()
        monitor, in_name = best.get("monitor") or self.task.monitor, best.get("filename") or ""
        named = [("checkpoint.monitor", monitor, best.get("mode"))]
        for name in re.findall(r"\{(?!epoch\b|step\b)(.*?)[:}]", in_name):
            named.append(("checkpoint.filename", name, None))
        for callback in callbacks:
            options = callback.get("init_args") or {}
            mode = options.get("mode", "min")  # Lightning's default
            named.append(("trainer.callbacks.monitor", options.get("monitor"), mode))
        for key, name, mode in named:
            if name and name not in known and not name.startswith(OPEN):
                raise BadRecipe(
                    f": no metric {name!r}.{did_you_mean(name, known)} Known: {listing(known, 30)}",
                    key=key,
                )
            if name and mode:
                with under(key.replace("monitor", "mode")):
                    self.task.check_mode(name, mode)

    def construct(self) -> None:
        """Call the constructors, which check ranges and combinations, of the model and of settings.
        The model has placeholders for the sizes that follow from the data, and no memory.
        """
        with constructing("model"):
            supplied = self.task.model_arguments(None, self.recipe["data"])
            make = partial(self.sections["model"].cls, **supplied)
            model = memory.without_data(make, self.recipe["model"])
            self.task.check_model(model)
        for name in self.task.settings():
            with constructing(name):
                made = self.sections[name].cls(**self.recipe[name])
                if check := getattr(made, "check_model", None):
                    check(model)
                if name == "optim":
                    self.task.check_optim(made, default=0.0)


@contextmanager
def constructing(section: str) -> Iterator[None]:
    """Context of a constructor, whose errors, of any kind, are those of a section."""
    try:
        with under(section):
            yield
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise BadRecipe(f": {' '.join(str(error).split())[:300]}", key=section) from None


def splits_have_names(data: Mapping[str, Any]) -> bool:
    """Whether the values of :data:`SPLITS` are names of splits and not paths: in a data set of the
    Hugging Face hub, or in a folder that its ``save_to_disk`` wrote. ``data`` is the section.
    """
    folder = data.get("root")
    saved = isinstance(folder, str) and is_saved(Path(folder).expanduser())
    return saved or bool(data.get("name"))


def absolute_path(value: Any) -> Any:
    """A path from the working directory, absolute; an address as it is."""
    if not isinstance(value, str) or is_address(value):
        return value
    return str(Path(value).expanduser().resolve())


# Classes of Lightning -----------------------------------------------------------------------------

LISTS = ("callbacks", "logger", "plugins")
"""Those that are lists."""
PASSED_ON = {
    "WandbLogger": "wandb.init",
    "TensorBoardLogger": "torch.utils.tensorboard.SummaryWriter",
}
"""What gets the options of a logger that it has not itself."""


def check_classes(key: str, value: Any) -> Any:
    """The value of an argument of the Trainer in :data:`CLASSES`, as a recipe keeps it: with the
    import path of each class, and its options in their types.
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
        raise BadRecipe(
            f"name the {what} first (--trainer.{key} NAME), then its options; in a file, "
            "{class_path: NAME, init_args: {...}}"
        )
    module, _, name = str(options.pop("class_path")).rpartition(".")
    path = f"{module or CLASSES[key]}.{name}"
    try:
        cls = load(path)
    except Exception as error:  # of any kind, if it is not Lightning's
        raise BadRecipe(f"cannot import {path}: {type(error).__name__}: {error}") from None
    own = path.startswith("lightning.")
    if not isinstance(cls, type) or (own and not cls.__module__.startswith("lightning.")):
        if isinstance(value, str) and key not in LISTS and not module:
            return value  # another name of Lightning's, such as ddp
        known = class_names(key)
        meant = next((one for one in known if one.lower() == f"{name}{what}".lower()), name)
        raise BadRecipe(
            f"no {what} named {name!r}.{did_you_mean(meant, known)} Known: {listing(known, 40)}"
        )
    supplied = {"save_dir": ""} if "save_dir" in arguments(cls) else {}
    check_arguments(cls, {**supplied, **options})
    if key == "logger":
        check_logger(cls, options)
    hints = types_of(cls)
    for option, one in options.items():
        if isinstance(one, Mapping) and "class_path" in one:
            options[option] = check_class(key, one)
        else:
            hint = hints.get(option, Any)
            options[option] = convert_value(one, hint, "", f"{name}: {option}")
    return {"class_path": path, **({"init_args": options} if options else {})}


def class_names(key: str) -> list[str]:
    """The names of Lightning's classes for an argument of the Trainer in :data:`CLASSES`."""
    package = vars(import_module(CLASSES[key]))
    return [name for name in package if isinstance(package[name], type)]


def check_logger(cls: type, options: Mapping[str, Any]) -> None:
    """Check that a logger's package is installed, and knows the options that are passed on."""
    modules = [vars(import_module(owner.__module__)) for owner in cls.__mro__]
    values = [value for module in modules for value in module.values()]
    needed = [value for value in values if type(value).__name__ == "RequirementCache"]
    if needed and not any(needed):
        raise BadRecipe(f"{cls.__name__} needs a package: {needed[0]}")
    if cls.__name__ in PASSED_ON and options.keys() - arguments(cls).keys():
        receiver = load(PASSED_ON[cls.__name__])
        check_arguments(cls, options, [one.name for one in parameters(receiver)])


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
    hints = types_of(cls)
    return cls(**{key: convert(make(one), hints.get(key, Any)) for key, one in options.items()})


def types_of(cls: type) -> dict[str, Any]:
    """The type of each argument of a constructor."""
    return {name: one.annotation for name, one in arguments(cls).items()}


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


# --help SECTION -----------------------------------------------------------------------------------

ENTRY = re.compile(
    r"^(?= {4}[\w`]| *- )( *)(?:- )?((?:`*\w+`*|\.{3})(?:, (?:`*\w+`*|\.{3}))*): +"
    r"(.*(?:\n\1 +(?!- )\S.*)*)",
    re.MULTILINE,
)
"""``name: text`` or ``a, b, ..., c: text`` under ``Args:``, or the same as an item of a list."""
SEE = re.compile(r"[Ss]ee :class:`~?([\w.]+)\.(\w+)`")


def descriptions(cls: type) -> dict[str, str]:
    """Return the description of each argument in the docstrings of a class, its constructor and its
    bases. ``see :class:`X``` stands for the descriptions in the docstring of X.
    """
    texts: dict[str, str] = {}
    for owner in cls.__mro__:
        for thing in (owner, vars(owner).get("__init__")):
            for key, text in entries(inspect.cleandoc(getattr(thing, "__doc__", None) or "")):
                if see := SEE.match(text):
                    other = getattr(import_module(see[1]), see[2])
                    texts = {**descriptions(other), **texts}
                else:
                    texts.setdefault(key, plain(text))
    return texts


def entries(doc: str) -> Iterator[tuple[str, str]]:
    """Yield name and first paragraph of each argument that a docstring describes."""
    for _, names, text in ENTRY.findall(doc.partition("\nRaises:")[0]):
        yield from ((name, text) for name in re.findall(r"\w+", names))


def plain(text: Any) -> str:
    """A description without markup and without its default."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("`", "")
    text = re.sub(r"\(?\bDefaults?: [^.;]+?(?:\.\d+)?\)?(?:\.|$)", "", text)
    return " ".join(text.split()).rstrip(".;")
