"""What a training is of, and what it begins with: the class of its task, and ``from``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base.loading import task_class
from tfzoo.base.registry import registry
from tfzoo.base.terminal import notify, silence_lightning
from tfzoo.config.files import Option, Source
from tfzoo.errors import BadRecipe, BadRun, listing, within

if TYPE_CHECKING:
    from tfzoo.runs.run import Run

FROM = "from"
SEED = "{seed}"
KNOWN: dict[tuple[Path, int], tuple[Any, dict[str, Any]]] = {}
"""The task and entry of runs that training begins with: the cells of a sweep share them."""


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
    is the seed, so that each run of a sweep begins with one of its own. A run ``own`` that began
    with it and goes on gives model and tokenizer itself.

    Raises:
        BadRecipe: it is no name.
        BadRun: there is nothing at that place, or nothing that tfzoo can read.
    """
    places = [place for place, source in enumerate(sources) if FROM in source.values]
    source = sources[places[-1]] if places else Source({FROM: None}, "")
    name = source.values[FROM]
    if name is None:
        return [*sources], None
    place = files if isinstance(source, Option) else places[-1]
    if not isinstance(name, str):
        raise BadRecipe(f"{source.origin}: {FROM} names a run, folder or repository, not {name!r}")
    from tfzoo.data.module import TextData
    from tfzoo.learning.published import starting_model, starting_values
    from tfzoo.runs.run import Run

    seeds = [one.values["seed"] for one in sources if "seed" in one.values]
    run = None
    with suppress(BadRun):
        run = Run(own) if own else None
    goes_on, run = run is not None, run or Run(name.replace(SEED, str([0, *seeds][-1])))
    start, values = Start(run), {}
    if run.is_published:
        values = starting_values(run.path.absolute(), task)
    elif issubclass(task.Data, TextData):
        key = run.path.resolve(), run.path.stat().st_mtime_ns
        if key not in KNOWN:
            KNOWN[key] = run.task, run.entry
        trained, entry = KNOWN[key]
        state, model = entry["tokenizer"], entry["recipe"].get("model")
        if goes_on:
            values = {"model": model}
        elif "data" not in entry["recipe"] and isinstance(model, dict):
            values = {"model": starting_model(model, task)}
        if trained.tokenizer_of_data == task.tokenizer_of_data:
            states = state.get("states", [state.get("state")])
            if not isinstance(states, list) or not all(isinstance(one, str) for one in states):
                raise BadRun(f"{run.path} is damaged: it has no vocabulary")
            start = Start(run, state.get("tokenizer"), states)
            joint = {"joint": len(states) == 1} if "states" in state else {}
            values["data"] = {"tokenizer": start.tokenizer, **joint}
    return [*sources[:place], Source(values, f"{FROM} {name}"), *sources[place:]], start
