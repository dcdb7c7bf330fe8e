"""Resolve a recipe: load it, merge overrides into it, and validate the result."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base.terminal import notify, silence_lightning
from tfzoo.config import help, packaged
from tfzoo.config.arguments import Arguments
from tfzoo.config.data_paths import absolute_data_paths, use_folder_as_root
from tfzoo.config.loader import read_yaml
from tfzoo.config.merge import ConfigSource, Merged
from tfzoo.config.sections import LIGHTNING, Section, sections, task_class
from tfzoo.config.security import check_values
from tfzoo.config.validation import check_monitors, check_trainer, validate
from tfzoo.errors import BadRecipe, did_you_mean, listing, within

if TYPE_CHECKING:
    from tfzoo.config.lightning import LightningConfig


BASE = "base"
"""The key of a recipe that names its base."""


@dataclass
class Config:
    """A resolved configuration.

    Args:
        name: the name of the recipe's file, without its suffix.
        task: the class of the task.
        sections: the task's sections.
        recipe: every value, defaults included, as plain values. ``--print_config`` prints it, and
            ``config.yaml`` in the run's folder holds it.
        lightning: the sections ``trainer`` and ``checkpoint``, parsed by jsonargparse.
        data: the data module of the section ``data``; None if it was not made.
        model: the model on the device ``meta``, with placeholders for what follows from the data.
    """

    name: str
    task: Any
    sections: Mapping[str, Section]
    recipe: dict[str, Any]
    lightning: LightningConfig
    data: Any = None
    model: Any = None


def load_recipe(name: str) -> ConfigSource:
    """Load a recipe by its packaged name or its path, and its bases: the recipe that it is based
    on, the base of that, and so on.

    ``base`` is a path, relative to the folder of the file that holds it, or a packaged name.

    Raises:
        BadRecipe: no such file, a file that is not a YAML mapping, or bases that form a cycle.
    """
    path = packaged.find(name)
    origin = str(path) if Path(name).is_file() else f"{name.removesuffix('.yaml')}.yaml"
    sources: list[ConfigSource] = []
    seen: list[Path] = []
    while True:
        values = read_yaml(path)
        base = values.pop(BASE, None)
        sources.insert(0, ConfigSource(values, origin, path))
        seen.append(path.resolve())
        if base is None:
            return replace(sources.pop(), bases=tuple(sources))
        path, origin = find_base(base, path, origin)
        if path.resolve() in seen:
            chain = " -> ".join(str(one) for one in [*seen, path.resolve()])
            raise BadRecipe(f"{seen[0]}: recipes that are based on each other: {chain}")


def find_base(base: Any, path: Path, origin: str) -> tuple[Path, str]:
    """Return the file that ``base`` in the file ``path`` names, and its name for messages."""
    if not isinstance(base, str):
        raise BadRecipe(f"{origin}: {BASE} is the name or the path of one recipe, not {base!r}")
    beside = path.parent / Path(base).expanduser()
    if beside.is_file():
        return beside, str(beside)
    name = base.removesuffix(".yaml")
    if name in packaged.names():
        return packaged.find(name), f"{name}.yaml"
    known = packaged.recipes()
    raise BadRecipe(
        f"{origin}: {BASE}: no recipe {base!r}, neither packaged nor a file beside {path.name}."
        f"{did_you_mean(base, known)} Packaged: {listing(known)}"
    )


def resolve(
    recipe: ConfigSource,
    arguments: Arguments,
    trust: bool = False,
    make_data: bool = True,
) -> Config:
    """Merge a recipe, ``--config`` files and command-line options, and validate the result. No data
    is read.

    All files and options are checked before anything that they name is imported. With ``trust``,
    the recipe may name classes outside Lightning, also in modules beside its file. The constructors
    of all sections are called, because they check ranges and combinations; without ``make_data``,
    that of ``data`` is not, and a recipe may lack paths that ``data`` requires.

    Raises:
        BadRecipe, BadOption, UnknownName, Clash: one line that names the mistake and its origin.
    """
    files = [*recipe.bases, recipe, *map(read_config, arguments.configs)]
    for source in files:
        check_values(source.values, source.origin, trust)
    for option in arguments.options:
        check_values(option.value, f"--{option.key}", trust, option.key.split("."))
    if make_data and "lightning" not in sys.modules:  # importing it takes seconds
        notify(f"loading: PyTorch and Lightning, for {recipe.origin}")
    task = find_task(files, [one.text for one in arguments.options if one.key == "task"])
    merged = Merged(sections(task))
    for source in files:
        merged.add(source.values, source.origin)
    merged.add_options(arguments.options)
    path = recipe.path or Path(recipe.origin)
    if trust and (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    use_folder_as_root(merged.values.get("data", {}), merged.origins)
    values = validate(merged)
    values["model"].pop("like", None)  # its options have been merged
    values["data"] = absolute_data_paths(values["data"])
    from tfzoo.config import lightning

    silence_lightning()
    parsed = lightning.parse({name: values[name] for name in LIGHTNING}, merged.origins, trust)
    check_trainer(parsed.recipe["trainer"], merged.origins)
    check_monitors(task, parsed.recipe, merged.origins)
    checkpoint = parsed.recipe["checkpoint"]
    if "mode" not in checkpoint and task.mode(checkpoint.get("monitor") or task.monitor) == "min":
        checkpoint["mode"] = "min"
    made = call_constructors(task, merged, values, make_data)
    recipe_values = {**values, **parsed.recipe}
    parts = made.get("data"), made["model"]
    return Config(path.stem, task, merged.sections, recipe_values, parsed, *parts)


def help_text(recipe: ConfigSource, arguments: Arguments) -> str:
    """Return every key of a recipe's task with its type, default and description."""
    typed = [option.text for option in arguments.options if option.key == "task"]
    return help.help_text(sections(find_task([*recipe.bases, recipe], typed)))


def find_task(files: Sequence[ConfigSource], typed: Sequence[str | None]) -> Any:
    """Return the class of the task: the last one ``typed`` after ``--task``, else that of the last
    file that has the key ``task``.
    """
    named = [(source.values["task"], source.origin) for source in files if "task" in source.values]
    named += [(name, "--task") for name in typed]
    name, origin = named[-1] if named else (None, files[-1].origin)
    with within(origin):
        return task_class(name)


def read_config(text: str | None) -> ConfigSource:
    """Read the file of ``--config``. A URL is an error."""
    if not text:
        raise BadRecipe("--config needs the path of a YAML file")
    scheme, colon, _ = text.partition(":")
    if colon and scheme.isidentifier() and not Path(text).exists():
        raise BadRecipe(
            f"--config reads files only, not {text!r}: download it, look at it, then give its path"
        )
    return ConfigSource(read_yaml(Path(text)), text)


def call_constructors(
    task: Any, merged: Merged, values: Mapping[str, Any], make_data: bool
) -> dict[str, Any]:
    """Call the constructors of all sections except Lightning's, and of ``data`` if ``make_data``,
    and return the instances. The model is built on the ``meta`` device, which allocates no memory,
    with placeholders for the sizes that follow from the data.
    """
    from tfzoo.runs import memory

    supplied = {
        "model": task.model_arguments(data=values["data"]),
        "data": {"seed": values["seed"]},
    }
    made = {}
    skipped = LIGHTNING if make_data else LIGHTNING | {"data"}
    for name in [name for name in merged.sections if name not in skipped]:
        where = f"{merged.origins.file_of(name)}{name}"
        try:
            with within(where):
                make = partial(merged.sections[name].cls, **supplied.get(name, {}))
                made[name] = (
                    memory.check_model(make, values[name])
                    if name == "model"
                    else make(**values[name])
                )
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            message = " ".join(str(error).split())[:300]
            raise BadRecipe(f"{where}: {message}") from None
    return made
