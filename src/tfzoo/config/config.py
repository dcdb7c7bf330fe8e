"""The configuration of one training: merged, checked and complete."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.config.arguments import Arguments
from tfzoo.config.loader import read_yaml
from tfzoo.config.merge import Layer, Merged, absolute, is_lightning, option_layers
from tfzoo.config.packaged import find
from tfzoo.config.sections import LIGHTNING, sections, task_class
from tfzoo.config.security import check_option, check_tree
from tfzoo.config.validation import validate
from tfzoo.errors import BadRecipe, TfzooError
from tfzoo.terminal import silence_lightning

if TYPE_CHECKING:
    from tfzoo.config.lightning import LightningConfig

SPLITS = ("train", "val", "test")


@dataclass
class Config:
    """What ``tfzoo fit`` trains.

    ``name`` is that of the recipe's file, ``task`` the class of the task, ``recipe`` the complete
    configuration as plain values (what ``--print_config`` prints and ``config.yaml`` keeps), and
    ``lightning`` the two sections that Lightning's own parser has read.
    """

    name: str
    task: Any
    recipe: dict[str, Any]
    lightning: LightningConfig


def load_recipe(name: str) -> Layer:
    """A recipe by packaged name or path.

    Raises:
        BadRecipe: there is none, or it is no YAML of sections.
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
    """The configuration of a recipe, ``--config`` files and options, checked without reading data.

    All sections but ``unchecked`` are built once, the model without memory, so that what their
    constructors refuse is refused here. ``trust`` lets the recipe name classes of its own, also in
    modules beside it.

    Raises:
        BadRecipe, BadOption, UnknownName, Clash: one line that says what is wrong and where.
    """
    task, merged, options = merge(recipe, arguments, trust)
    path = recipe.path or Path(recipe.origin)
    if trust and (beside := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, beside)
    values = validate(merged)
    values["data"] = absolute_paths(values["data"])
    from tfzoo.config import lightning

    silence_lightning()
    parsed = lightning.parse(merged, options, trust)
    build(task, values, merged, [name for name in values if name not in unchecked])
    return Config(path.stem, task, {**values, **parsed.recipe}, parsed)


def help_text(recipe: Layer, arguments: Arguments) -> str:
    """Every key of a recipe's task, with type and default."""
    task = task_of([recipe], arguments.options)
    from tfzoo.config import lightning

    return lightning.help_text(sections(task))


def merge(
    recipe: Layer, arguments: Arguments, trust: bool
) -> tuple[Any, Merged, list[tuple[str, str | None]]]:
    """The task, all layers merged, and the options that are left to Lightning's parser.

    Nothing that a layer names is imported before all layers are known to be safe.
    """
    files = [recipe, *(read_config(text) for key, text in arguments.options if key == "config")]
    options = [option for option in arguments.options if option[0] != "config"]
    for layer in files:
        check_tree(layer.tree, layer.origin, trust)
    for key, text in options:
        check_option(key, text, trust)
    task = task_of(files, options)
    merged = Merged(sections(task))
    for layer in files:
        merged.add(layer)
    is_hub = "data.name" in dict(options) or merged.tree.get("data", {}).get("name")
    for layer in option_layers(options, merged.sections, () if is_hub else SPLITS):
        merged.add(layer)
    return task, merged, [option for option in options if is_lightning(option[0])]


def task_of(files: Sequence[Layer], options: Sequence[tuple[str, str | None]]) -> Any:
    """The class of the task that is named last."""
    named = [(layer.tree["task"], layer.origin) for layer in files if "task" in layer.tree]
    named += [(text, "--task") for key, text in options if key == "task"]
    name, origin = named[-1] if named else (None, files[-1].origin)
    try:
        return task_class(name)
    except BadRecipe as error:
        raise BadRecipe(f"{origin}: {error}") from None


def read_config(text: str | None) -> Layer:
    """The layer of a ``--config`` file; addresses are refused."""
    if not text:
        raise BadRecipe("--config needs the path of a YAML file")
    scheme, colon, _ = text.partition(":")
    if colon and scheme.isidentifier() and not Path(text).exists():
        raise BadRecipe(
            f"--config reads files alone, not {text!r}: download it, look at it, then give its path"
        )
    return Layer(read_yaml(Path(text)), text)


def absolute_paths(data: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``data`` with absolute paths, so that it can be used from any folder.

    Those of a file are relative to ``data.root``, or to the working directory where there is none.
    """
    keys = ("root",) if data.get("root") else () if data.get("name") else SPLITS
    return {key: absolute(value) if key in keys else value for key, value in data.items()}


def build(task: Any, values: Mapping[str, Any], merged: Merged, checked: Collection[str]) -> None:
    """Build model, data and settings once, without memory: their constructors check ranges and what
    does not go together.
    """
    import torch

    supplied = {
        "model": task.model_arguments(data=values["data"]),
        "data": {"seed": values["seed"]},
    }
    for name, section in merged.sections.items():
        if name in LIGHTNING or name not in checked:
            continue
        try:
            with torch.device("meta"):
                section.cls(**supplied.get(name, {}), **values[name])
        except TfzooError as error:
            error.args = (f"{where(name, merged)}{name}: {error}",)
            raise
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            said = " ".join(str(error).split())[:300]
            raise BadRecipe(f"{where(name, merged)}{name}: {said}") from None


def where(section: str, merged: Merged) -> str:
    """The file that all keys of a section came from, if it is one."""
    origins = {one for key, one in merged.origins.items() if key.startswith(f"{section}.")}
    return f"{origins.pop()}: " if len(origins) == 1 and "--" not in "".join(origins) else ""
