"""Resolve a recipe: load it, merge overrides into it, and validate the result."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.config.arguments import Arguments
from tfzoo.config.loader import read_yaml
from tfzoo.config.merge import (
    Layer,
    Merged,
    Origins,
    absolute_path,
    is_lightning_option,
    parse_options,
)
from tfzoo.config.packaged import find
from tfzoo.config.sections import LIGHTNING, sections, task_class
from tfzoo.config.security import check_option, check_values
from tfzoo.config.validation import validate
from tfzoo.errors import BadRecipe, TfzooError
from tfzoo.terminal import silence_lightning

if TYPE_CHECKING:
    from tfzoo.config.lightning import LightningConfig

SPLITS = ("train", "val", "test")


@dataclass
class Config:
    """A resolved configuration.

    Args:
        name: the name of the recipe's file, without its suffix.
        task: the class of the task.
        recipe: every value, defaults included, as plain values. ``--print_config`` prints it, and
            ``config.yaml`` in the run's folder holds it.
        lightning: the sections ``trainer`` and ``checkpoint``, parsed by jsonargparse.
    """

    name: str
    task: Any
    recipe: dict[str, Any]
    lightning: LightningConfig


def load_recipe(name: str) -> Layer:
    """Load a recipe by its packaged name or its path.

    Raises:
        BadRecipe: no such recipe, or a file that is not a YAML mapping.
    """
    path = find(name)
    origin = str(path) if Path(name).is_file() else f"{name.removesuffix('.yaml')}.yaml"
    return Layer(read_yaml(path), origin, path)


def resolve(
    recipe: Layer,
    arguments: Arguments,
    trust: bool = False,
    unchecked: Collection[str] = (),
) -> Config:
    """Merge a recipe, ``--config`` files and command-line options, and validate the result. No data
    is read.

    The constructors of all sections except ``unchecked`` are called once, those of models on the
    ``meta`` device, because they check ranges and combinations. With ``trust``, the recipe may name
    classes outside Lightning, also in modules beside its file.

    Raises:
        BadRecipe, BadOption, UnknownName, Clash: one line that names the mistake and its origin.
    """
    task, merged, options = merge_all(recipe, arguments, trust)
    path = recipe.path or Path(recipe.origin)
    if trust and (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    values = validate(merged)
    values["data"] = absolute_data_paths(values["data"])
    from tfzoo.config import lightning

    silence_lightning()
    own = {name: merged.values[name] for name in LIGHTNING if name in merged.values}
    parsed = lightning.parse(replace(merged, values=own), options, trust)
    skipped = {*LIGHTNING, *unchecked}
    classes = {name: one.cls for name, one in merged.sections.items() if name not in skipped}
    call_constructors(task, classes, values, merged.origins)
    return Config(path.stem, task, {**values, **parsed.recipe}, parsed)


def help_text(recipe: Layer, arguments: Arguments) -> str:
    """Return every key of a recipe's task with its type and default."""
    task = find_task([recipe], [text for key, text in arguments.options if key == "task"])
    from tfzoo.config import lightning

    return lightning.help_text(sections(task))


def merge_all(
    recipe: Layer, arguments: Arguments, trust: bool
) -> tuple[Any, Merged, list[tuple[str, str | None]]]:
    """Return the class of the task, the merged values, and the options for jsonargparse.

    All files and options are checked before anything that they name is imported.
    """
    files = [recipe, *(read_config(text) for key, text in arguments.options if key == "config")]
    options = [option for option in arguments.options if option[0] != "config"]
    for layer in files:
        check_values(layer.values, layer.origin, trust)
    for key, text in options:
        check_option(key, text, trust)
    task = find_task(files, [text for key, text in options if key == "task"])
    merged = Merged(sections(task))
    for layer in files:
        merged.add(layer)
    from_hub = "data.name" in dict(options) or merged.values.get("data", {}).get("name")
    for layer in parse_options(options, merged.sections, () if from_hub else SPLITS):
        merged.add(layer)
    return task, merged, [option for option in options if is_lightning_option(option[0])]


def find_task(files: Sequence[Layer], options: Sequence[str | None]) -> Any:
    """Return the class of the task: the value of the last ``--task``, else of the last file that
    has the key ``task``.
    """
    named = [(layer.values["task"], layer.origin) for layer in files if "task" in layer.values]
    named += [(text, "--task") for text in options]
    name, origin = named[-1] if named else (None, files[-1].origin)
    try:
        return task_class(name)
    except BadRecipe as error:
        raise BadRecipe(f"{origin}: {error}") from None


def read_config(text: str | None) -> Layer:
    """Read the file of ``--config``. A URL is an error."""
    if not text:
        raise BadRecipe("--config needs the path of a YAML file")
    scheme, colon, _ = text.partition(":")
    if colon and scheme.isidentifier() and not Path(text).exists():
        raise BadRecipe(
            f"--config reads files alone, not {text!r}: download it, look at it, then give its path"
        )
    return Layer(read_yaml(Path(text)), text)


def absolute_data_paths(data: Mapping[str, Any]) -> dict[str, Any]:
    """Make the paths in the section ``data`` absolute.

    Paths of splits are left relative to ``data.root`` if there is one. With ``data.name``, a data
    set of the Hugging Face hub, splits are names and not paths.
    """
    keys = ("root",) if data.get("root") else () if data.get("name") else SPLITS
    return {key: absolute_path(value) if key in keys else value for key, value in data.items()}


def call_constructors(
    task: Any, classes: Mapping[str, type], values: Mapping[str, Any], origins: Origins
) -> None:
    """Call the constructors of these sections on the ``meta`` device, which allocates no memory."""
    import torch

    supplied = {
        "model": task.model_arguments(data=values["data"]),
        "data": {"seed": values["seed"]},
    }
    for name, cls in classes.items():
        try:
            with torch.device("meta"):
                cls(**supplied.get(name, {}), **values[name])
        except TfzooError as error:
            error.args = (f"{origins.file_of(name)}{name}: {error}",)
            raise
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            message = " ".join(str(error).split())[:300]
            raise BadRecipe(f"{origins.file_of(name)}{name}: {message}") from None
