"""The trained weights that a training begins with: ``from`` in a recipe, ``--from``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfzoo.config.sections import task_class
from tfzoo.config.sources import ConfigSource, Option
from tfzoo.errors import BadRecipe, BadRun

FROM = "from"
"""The key of a recipe that names them: a run, a checkpoint, a folder or a repository."""
SEED = "{seed}"


@dataclass(frozen=True)
class Start:
    """What a training begins with.

    Args:
        path: the checkpoint or folder whose weights are read.
        tokenizer: name and options of a run's tokenizer; None where its text has another form.
        states: its vocabulary, or those of source and target.
    """

    path: Path
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
    from tfzoo.runs import checkpoints, pretrained

    said: list[ConfigSource | Option] = [*files, *options]
    seeds = [one.values["seed"] for one in said if "seed" in one.values]
    start = checkpoints.resolve(source.replace(SEED, str(seeds[-1] if seeds else 0)))
    found = Start(start)
    values: dict[str, Any] = {}
    if pretrained.is_published(start):
        values = task.starting_values(start.absolute())
    elif issubclass(task.Data, TextData):
        kept = checkpoints.read(start)["tfzoo"]
        if task_class(kept["task"]).tokenizer_of_data == task.tokenizer_of_data:
            state = kept["tokenizer"]
            states = state.get("states", [state.get("state")])
            if not isinstance(states, list) or not all(isinstance(one, str) for one in states):
                raise BadRun(f"{start} is damaged: it has no vocabulary")
            found = Start(start, state.get("tokenizer"), states)
            values = {"data": {"tokenizer": found.tokenizer}}
            values["data"] |= {"joint": len(states) == 1} if "states" in state else {}
    return [*files[:at], ConfigSource(values, f"{FROM} {source}"), *files[at:]], found
