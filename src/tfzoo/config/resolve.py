"""Resolve a recipe: merge overrides into it, and validate the result."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tfzoo.base import memory
from tfzoo.base.loading import task_class
from tfzoo.base.registry import registry
from tfzoo.base.terminal import notify, silence_lightning
from tfzoo.config.merge import Merged, merge
from tfzoo.config.sections import LIGHTNING
from tfzoo.config.security import check_values
from tfzoo.config.sources import Arguments, ConfigSource, Source
from tfzoo.config.start import Start, start_from
from tfzoo.config.validation import check_meaning, validate
from tfzoo.errors import BadRecipe, listing, within


@dataclass
class Config:
    """A resolved configuration.

    Args:
        name: the name of the recipe's file, without its suffix.
        task: the class of the task.
        defaults: the defaults of each section but Lightning's, whose recipe holds no defaults.
        recipe: every value, defaults included, as plain values. ``--print_config`` prints it, and
            ``config.yaml`` in the run's folder holds it.
        data: the data module of the section ``data``; None if it was not made.
        start: what training starts with, if not with new weights.
    """

    name: str
    task: Any
    defaults: Mapping[str, Mapping[str, Any]]
    recipe: dict[str, Any]
    data: Any = None
    start: Start | None = None


def resolve(
    files: Sequence[ConfigSource],
    arguments: Arguments,
    make_data: bool = True,
    own: str | None = None,
) -> Config:
    """Merge the files of a recipe, ``--config`` files and command-line options, and validate the
    result. No data is read.

    All files and options are checked before anything that they name is imported. With ``--trust``,
    the recipe may name classes outside Lightning, also in modules beside its file. The constructors
    of all sections are called, because they check ranges and combinations; without ``make_data``,
    that of ``data`` is not, and a recipe may lack paths that ``data`` requires. ``own`` is the
    folder of a run that goes on, see :func:`tfzoo.config.start.start_from`.

    Raises:
        BadRecipe, BadOption, UnknownName, Clash: one line that names the mistake and its origin.
    """
    sources, trust = arguments.over(files), arguments.trust
    for source in sources:
        check_values(source.values, source.origin, trust)
    if make_data and "lightning" not in sys.modules:  # importing it takes seconds
        notify(f"loading: PyTorch and Lightning, for {files[-1].origin}")
    task = find_task(sources)
    sources, start = start_from(sources, len(files), task, own)
    merged = merge(task, sources)
    path = files[-1].path or Path(files[-1].origin)
    if trust and (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    silence_lightning()
    values = validate(merged)
    check_meaning(task, values, merged.origins)
    checkpoint = values["checkpoint"]
    if "mode" not in checkpoint and task.mode(checkpoint.get("monitor") or task.monitor) == "min":
        checkpoint["mode"] = "min"
    data = call_constructors(task, merged, values, make_data)
    defaults = {
        name: section.defaults for name, section in merged.sections.items() if name not in LIGHTNING
    }
    return Config(path.stem, task, defaults, values, data, start)


def find_task(sources: Sequence[Source]) -> Any:
    """Return the class of the task, which the last source names that has the key ``task``.

    Raises:
        BadRecipe, UnknownName: there is no such task.
    """
    source = next((one for one in reversed(sources) if "task" in one.values), sources[0])
    name = source.values.get("task")
    with within(source.origin):
        if not isinstance(name, str):
            raise BadRecipe(f"no task; begin with task: {listing(registry('task').names())}")
        return task_class(name)


def call_constructors(task: Any, merged: Merged, values: Mapping[str, Any], make_data: bool) -> Any:
    """Call the constructors of all sections except Lightning's, and of ``data`` if ``make_data``;
    return the data module, None if it was not made. The model is built on the ``meta`` device,
    which allocates no memory, with placeholders for the sizes that follow from the data.
    """
    supplied = {
        "model": task.model_arguments(data=values["data"]),
        "data": {"seed": values["seed"]},
    }
    made: dict[str, Any] = {}
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
                if name == "model":
                    task.check_model(made[name])
                elif check := getattr(made[name], "check_model", None):
                    check(made["model"])
                if name == "optim":
                    task.check_optim(made[name], default=0.0)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            message = " ".join(str(error).split())[:300]
            raise BadRecipe(f"{where}: {message}") from None
    return made.get("data")
