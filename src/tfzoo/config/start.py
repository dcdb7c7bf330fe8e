"""The trained weights that a training begins with: ``from`` in a recipe, ``--from``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.config.sources import ConfigSource, Option
from tfzoo.errors import BadRecipe, BadRun

if TYPE_CHECKING:
    from tfzoo.runs.run import Run

FROM = "from"
"""The key of a recipe that names them: a run, a checkpoint, a folder or a repository."""
SEED = "{seed}"
KNOWN: dict[tuple[Path, int], tuple[Any, dict[str, Any]]] = {}
"""What :func:`tokenizer_of` has found, by checkpoint and time: the cells of a sweep share it."""


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


def begin(
    files: Sequence[ConfigSource], options: Sequence[Option], recipes: int, task: Any
) -> tuple[list[ConfigSource], Start | None]:
    """The files of a configuration with what the last ``from`` gives it, and where training starts;
    None where there is no ``from``.

    A run of tfzoo gives weights and tokenizer, a folder of ``transformers`` the model as well: they
    override what stands before the file that says ``from``, and its own keys override them.
    ``--from`` stands after the first ``recipes`` files, the recipe and its bases. ``{seed}`` in the
    name is the seed, so that each run of a sweep begins with one of its own.

    Raises:
        BadRecipe: it is no name.
        BadRun: there is nothing at that place, or nothing that tfzoo can read.
    """
    places: list[tuple[int, Any, ConfigSource | Option]] = [
        (at, one.values[FROM], one) for at, one in enumerate(files) if FROM in one.values
    ]
    places += [(recipes, one.value, one) for one in options if one.key == FROM]
    if not places or places[-1][1] is None:
        return [*files], None
    at, source, where = places[-1]
    if not isinstance(source, str):
        raise BadRecipe(f"{where.origin}: {FROM} names a run, folder or repository, not {source!r}")
    from tfzoo.data.module import TextData
    from tfzoo.runs.run import Run

    said: list[ConfigSource | Option] = [*files, *options]
    seeds = [one.values["seed"] for one in said if "seed" in one.values]
    run = Run(source.replace(SEED, str(seeds[-1] if seeds else 0)))
    start, values = Start(run), {}
    if run.is_published:
        values = task.starting_values(run.path.absolute())
    elif issubclass(task.Data, TextData):
        trained, state = tokenizer_of(run)
        if trained.tokenizer_of_data == task.tokenizer_of_data:
            states = state.get("states", [state.get("state")])
            if not isinstance(states, list) or not all(isinstance(one, str) for one in states):
                raise BadRun(f"{run.path} is damaged: it has no vocabulary")
            start = Start(run, state.get("tokenizer"), states)
            joint = {"joint": len(states) == 1} if "states" in state else {}
            values = {"data": {"tokenizer": start.tokenizer, **joint}}
    return [*files[:at], ConfigSource(values, f"{FROM} {source}"), *files[at:]], start


def tokenizer_of(run: Run) -> tuple[Any, dict[str, Any]]:
    """The class of a run's task, and the state of its tokenizer."""
    key = run.path.resolve(), run.path.stat().st_mtime_ns
    if key not in KNOWN:
        KNOWN[key] = run.task, run.entry["tokenizer"]
    return KNOWN[key]
