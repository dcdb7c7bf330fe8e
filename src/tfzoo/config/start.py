"""The trained weights that a training begins with: ``from`` in a recipe, ``--from``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base.terminal import notify
from tfzoo.config.sources import ConfigSource, Option, Source
from tfzoo.errors import BadRecipe, BadRun

if TYPE_CHECKING:
    from tfzoo.runs.run import Run

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
    if not places or sources[places[-1]].values[FROM] is None:
        return [*sources], None
    source = sources[places[-1]]
    place = files if isinstance(source, Option) else places[-1]
    name = source.values[FROM]
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
