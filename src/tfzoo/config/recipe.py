"""A recipe as files and options say it, merged: nested values, and the origin of each key.

Later sources override earlier ones: the recipe's base, the recipe, files of ``--config``, options.
Components are merged by name: an option without a name (``--model.norm.eps 1e-6``) is added to the
component of the earlier sources; another name replaces the component together with its options.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base.loading import task_class
from tfzoo.base.registry import registry
from tfzoo.base.terminal import notify, silence_lightning
from tfzoo.config.lightning import CLASSES, as_list
from tfzoo.config.sections import TOP, Section, sections
from tfzoo.config.security import check_values
from tfzoo.config.sources import ConfigSource, Option, Source, nested
from tfzoo.data.remote import is_address
from tfzoo.data.source import is_saved
from tfzoo.errors import BadRecipe, BadRun, did_you_mean, listing, within
from tfzoo.models.architectures import options_like

if TYPE_CHECKING:
    from tfzoo.runs.run import Run

SPLITS = ("train", "val", "test")
"""The keys of the section ``data`` whose values are paths, unless :func:`splits_have_names`."""
FIRST = ("model.like", "data.name", "data.root", "data.dataset", "trainer.callbacks")
"""The options that are merged first, as they change what others mean."""
FROM = "from"
"""The key of a recipe that names them: a run, a checkpoint, a folder or a repository."""
SEED = "{seed}"
KNOWN: dict[tuple[Path, int], tuple[Any, dict[str, Any]]] = {}
"""What :func:`task_and_entry` has found, by checkpoint and time: the cells of a sweep share it."""


@dataclass(frozen=True)
class Start:
    """What a training begins with.

    Args:
        run: what its weights are read from.
        tokenizer: name and options of a run's tokenizer; None where its text has another form.
        states: its vocabulary, or those of source and target.
    """

    run: Run
    tokenizer: Any = None
    states: Sequence[str] = ()


def read(
    files: Sequence[ConfigSource],
    overrides: Sequence[Source] = (),
    trust: bool = False,
    own: str | None = None,
) -> Recipe:
    """Merge the files of a recipe and the files and options that override it. No data is read.

    All files and options are checked before anything that they name is imported. With ``trust``,
    the recipe may name classes outside Lightning, also in modules beside its file. ``own`` is the
    folder of a run that goes on, see :func:`start_from`.

    Raises:
        BadRecipe, UnknownName: a key that is unknown, in the wrong section, or without its value.
        BadRun: what it starts from is not there or cannot be read.
    """
    sources = [*files, *overrides]
    for source in sources:
        check_values(source.values, source.origin, trust)
    path = files[-1].path or Path(files[-1].origin)
    if trust and (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    task = find_task(sources)
    sources, start = start_from(sources, len(files), task, own)
    recipe = Recipe(path.stem, task, sections(task), start)
    for source in sorted(sources, key=order):
        with within(source.origin):
            recipe.add(source)
    return recipe


def find_task(sources: Sequence[Source]) -> Any:
    """The class of the task, which the last source names that has the key ``task``.

    Raises:
        BadRecipe, UnknownName: there is no such task.
    """
    source = next((one for one in reversed(sources) if "task" in one.values), sources[0])
    name = source.values.get("task")
    with within(source.origin):
        if not isinstance(name, str):
            raise BadRecipe(f"no task; begin with task: {listing(registry('task').names())}")
        if "lightning" not in sys.modules:  # importing it takes seconds
            notify("loading: PyTorch and Lightning")
        found = task_class(name)
    silence_lightning()
    return found


def start_from(
    sources: Sequence[Source], files: int, task: Any, own: str | None = None
) -> tuple[list[Source], Start | None]:
    """The sources of a configuration with what the last ``from`` gives it, and where training
    starts; None where there is no ``from``.

    A run of tfzoo gives weights and tokenizer. A folder of ``transformers``, or a run that no
    recipe has trained, such as one that ``tfzoo import`` wrote, gives the model as well. They
    override what stands before the file that says ``from``, and its own keys override them.
    ``--from`` stands after the first ``files`` sources, those of the recipe. ``{seed}`` in the name
    is the seed, so that each run of a sweep begins with one of its own. Where it is not there any
    more, the run ``own`` that began with it gives model and tokenizer, so that training goes on.

    Raises:
        BadRecipe: it is no name.
        BadRun: there is nothing at that place, or nothing that tfzoo can read.
    """
    places = [place for place, source in enumerate(sources) if FROM in source.values]
    source = sources[places[-1]] if places else ConfigSource({FROM: None}, "")
    name = source.values[FROM]
    if name is None:
        return [*sources], None
    place = files if isinstance(source, Option) else places[-1]
    if not isinstance(name, str):
        raise BadRecipe(f"{source.origin}: {FROM} names a run, folder or repository, not {name!r}")
    from tfzoo.data.module import TextData

    seeds = [one.values["seed"] for one in sources if "seed" in one.values]
    run, goes_on = begins_with(name.replace(SEED, str(seeds[-1] if seeds else 0)), own)
    start, values = Start(run), {}
    if run.is_published:
        values = task.starting_values(run.path.absolute())
    elif issubclass(task.Data, TextData):
        trained, entry = task_and_entry(run)
        state, model = entry["tokenizer"], entry["recipe"].get("model")
        if goes_on:
            values = {"model": model}
        elif "data" not in entry["recipe"] and isinstance(model, dict):
            values = {"model": task.starting_model(model)}
        if trained.tokenizer_of_data == task.tokenizer_of_data:
            states = state.get("states", [state.get("state")])
            if not isinstance(states, list) or not all(isinstance(one, str) for one in states):
                raise BadRun(f"{run.path} is damaged: it has no vocabulary")
            start = Start(run, state.get("tokenizer"), states)
            joint = {"joint": len(states) == 1} if "states" in state else {}
            values["data"] = {"tokenizer": start.tokenizer, **joint}
    return [*sources[:place], ConfigSource(values, f"{FROM} {name}"), *sources[place:]], start


def begins_with(name: str, own: str | None) -> tuple[Run, bool]:
    """What a run, checkpoint or folder of this name is; the run ``own`` and True in its place."""
    from tfzoo.runs.run import Run

    try:
        return Run(name), False
    except BadRun as gone:
        with suppress(BadRun):
            if own:
                run = Run(own)
                notify(
                    f"{name} is not there: model and tokenizer are those of {own}, which goes on"
                )
                return run, True
        raise gone


def task_and_entry(run: Run) -> tuple[Any, dict[str, Any]]:
    """The class of a run's task, and what its checkpoint has beside tensors."""
    key = run.path.resolve(), run.path.stat().st_mtime_ns
    if key not in KNOWN:
        KNOWN[key] = run.task, run.entry
    return KNOWN[key]


def order(source: Source) -> int:
    """When a source is merged: files before options, a component before its options, whatever their
    order on the command line; but options of a callback belong to the callback before them.
    """
    if isinstance(source, ConfigSource):
        return -1
    return 0 if source.key.startswith(FIRST) else source.key.count(".")


@dataclass
class Recipe:
    """Merged sources.

    Args:
        name: the name of the recipe's file, without its suffix.
        task: the class of the task.
        sections: what each section may hold.
        start: what training starts with, if not with new weights.
        values: what was set, nested.
        origins: the file or option that set each dotted key last.
    """

    name: str
    task: Any
    sections: Mapping[str, Section]
    start: Start | None = None
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    like: str = ""
    """The origin of the options that the last ``like`` set."""

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

    def add(self, source: Source) -> None:
        """Merge a source, which overrides earlier ones.

        In ``model``, ``like`` is merged first, so that the other keys override the architecture's
        options.
        """
        values = self.values_of(source) if isinstance(source, Option) else source.values
        for name, value in values.items():
            if name in TOP:
                self.values[name], self.origins[name] = value, source.origin
                continue
            if name not in self.sections:
                raise BadRecipe(misplaced(self.sections, name))
            if not isinstance(value, Mapping | None):
                raise BadRecipe(f"{name} is a section of keys, not {value!r}")
            keys = dict(value or {})
            if name == "model" and (architecture := keys.pop("like", None)) is not None:
                self.add_architecture(architecture, source.origin)
            for key, inner in keys.items():
                self.set(name, key, inner)
                self.origins[f"{name}.{key}"] = source.origin

    def values_of(self, option: Option) -> Mapping[str, Any]:
        """The nested values of an option. Paths of data start at the working directory, and an
        option with a ``+`` adds to a list.
        """
        section, *keys = option.key.split(".")
        key, known = ".".join(keys[:1]), self.sections.get(section)
        value = option.read(known.type_of(*keys) if known and keys else TOP.get(section, Any))
        before = self.values.get(section, {}) if keys else {}
        if section == "data" and key in SPLITS and not splits_have_names(before):
            value = absolute_path(value)
        if option.adds and keys:
            value = [*as_list(before.get(key)), value]
        return nested(option.key, value)

    def add_architecture(self, name: Any, origin: str) -> None:
        """Set the options of ``like: NAME`` in the section ``model``, in place of those of an
        earlier ``like``.
        """
        with within("model.like"):
            options = options_like(name, self.sections["model"].cls)
        values = self.values.setdefault("model", {})
        for key in [key for key in values if self.origins[f"model.{key}"] == self.like]:
            del values[key], self.origins[f"model.{key}"]
        self.like = f"{origin} (like: {name})"
        values.update(options)
        self.origins.update({f"model.{key}": self.like for key in options})

    def set(self, section: str, key: str, value: Any) -> None:
        """Set a key of a section, or merge a component or a mapping into what is there."""
        known, values = self.sections[section], self.values.setdefault(section, {})
        if key not in known.hints:
            raise BadRecipe(misplaced(self.sections, key, section))
        before = values.get(key, known.defaults.get(key))
        if key in known.slots:
            value = merge_spec(before, value)
        elif section == "trainer" and key in CLASSES:
            value = merge_class(before, value)
        elif isinstance(before, Mapping) and isinstance(value, Mapping):
            slots = known.slots if known.is_nested(key) else {}
            changed = {
                name: merge_spec(before.get(name), inner) if name in slots else inner
                for name, inner in value.items()
            }
            value = {**before, **changed}
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


def misplaced(known: Mapping[str, Section], key: str, section: str = "") -> str:
    """The error message for a key that is unknown, or that is not a key of ``section``."""
    likely = SYNONYMS.get(key, key)
    here: Collection[str] = known[section].hints if section else [*known, *TOP]
    elsewhere = f", not under `{section}`" if section else ""
    what = f"{section} has no key {key!r}." if section else f"no section {key!r}."
    if likely in here:
        return f"{what} Did you mean {likely!r}?"
    if key in TOP:
        return f"`{key}` belongs at the top{elsewhere}"
    if key in known:
        return f"`{key}` is a section of its own, not a key of `{section}`"
    if homes := [f"`{name}`" for name, one in known.items() if key in one.hints]:
        return f"`{key}` belongs under {' or '.join(homes)}{elsewhere}"
    if any(key in one.supplied for one in known.values()):
        return (
            f"`{key}` cannot be set in a recipe: vocabulary sizes and classes follow from the "
            "tokenizer and the data, the folder from --run"
        )
    if close := did_you_mean(key, here):
        return what + close
    for name, one in known.items():
        if likely in one.hints:
            return f"{what} Did you mean {likely!r}, under `{name}`?"
    for name, one in known.items():
        if close := did_you_mean(key, one.hints):
            return f"{what}{close[:-1]}, under `{name}`?"
    return f"{what} Known: {listing(here, 40)}"
