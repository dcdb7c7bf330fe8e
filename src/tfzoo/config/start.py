"""The trained weights that a training begins with: ``from`` in a recipe, ``--from``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base.terminal import notify, relative_path
from tfzoo.config.sources import ConfigSource, Option, Source
from tfzoo.errors import BadRecipe, BadRun, listing

if TYPE_CHECKING:
    from torch import Tensor

    from tfzoo.runs.run import Run

FROM = "from"
"""The key of a recipe that names them: a run, a checkpoint, a folder or a repository."""
SEED = "{seed}"
SHOWN = 12
"""The most names of weights that are shown of each kind."""
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

    def vocabularies(self, data: Mapping[str, Any]) -> Sequence[str]:
        """Its vocabularies, where the section ``data`` names the same tokenizer; else none, and new
        ones are made of the text.
        """
        from tfzoo.data.prepare import identity

        if not self.states:
            return ()
        same = identity("tokenizer", data["tokenizer"]) == identity("tokenizer", self.tokenizer)
        if not same or data.get("joint") not in (None, len(self.states) == 1):
            return ()
        notify(f"tokenizer: that of {relative_path(self.run.path)}")
        return self.states

    def load(self, task: Any) -> list[tuple[str, str]]:
        """Copy the weights that have the name and shape of one of a new task's. Returns the rows of
        a table: which are kept, which start anew, which are dropped, and which options of the model
        are other ones.

        Raises:
            BadRun: the run is damaged, or no weight of it fits.
        """
        own, kept = task.state_dict(), self.run.weights
        beside = self.run.content.get("beside", {})
        kept = {**kept, **{name: weight for name, weight in beside.items() if name in own}}
        fits = {
            name: weight
            for name, weight in kept.items()
            if name in own and weight.shape == own[name].shape
        }
        if not fits:
            raise BadRun(
                f"{relative_path(self.run.path)}: none of its {len(kept)} weights has the name and "
                "shape of one of this model's"
            )
        task.load_state_dict({**own, **fits})
        entry, parts = self.run.entry, [*map(of_model, (own, kept, fits))]
        rows = compared(*parts)
        changed = swapped(entry["recipe"].get("model", {}), task.recipe.get("model", {}))
        rows += [("swapped", ", ".join(changed))] if changed else []
        task.began, task.anew = dict(rows), sorted(own.keys() - fits.keys())
        self.warn(parts[0], parts[2])
        if texts_of(entry["tokenizer"]) != texts_of(task.tokenizer_state()):
            another = "another one: a row of its embeddings stood for another word"
            rows.append(("tokenizer", another))
        labels, wanted = (one.get("labels") for one in (entry["tokenizer"], task.tokenizer_state()))
        if labels and wanted and labels != wanted and len(labels) == len(wanted):
            rows.append(("labels", f"others: a row of the head stood for {listing(labels)}"))
        return rows

    def warn(self, own: Mapping[str, Tensor], fits: Mapping[str, Tensor]) -> None:
        """Say that less than half of the weights ``own`` of a model are the run's, ``fits``."""
        size, kept = (sum(one.numel() for one in state.values()) for state in (own, fits))
        if 2 * kept >= size:
            return
        folder = self.run.folder and relative_path(self.run.folder)
        keep = f". To keep its model: tfzoo fit {folder}/config.yaml --from {folder}"
        notify(
            f"from {relative_path(self.run.path)}: only {kept / size:.1%} of this model's "
            "parameters are kept, the rest starts anew: it has other sizes or parts"
            + (keep if folder else "")
        )


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


def compared(
    own: Mapping[str, Tensor], kept: Mapping[str, Tensor], fits: Mapping[str, Tensor]
) -> list[tuple[str, str]]:
    """What became of the weights of a new model, its ``own``, and of those of a run, which it has
    ``kept``, of which some have fitted.
    """
    anew = {
        name: f", whose shape was {list(kept[name].shape)}" if name in kept else ""
        for name in own
        if name not in fits
    }
    dropped = dict.fromkeys((name for name in kept if name not in own), "")
    return [("kept", count(fits, own))] + [
        (kind, f"{count(names, state)}: {listing(folded(names), SHOWN)}")
        for kind, names, state in (("started anew", anew, own), ("dropped", dropped, kept))
        if names
    ]


def swapped(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The options of a model that differ, parts by their names.

    >>> swapped({"norm": {"name": "layer", "eps": 1e-5}, "dim": 8}, {"norm": "rms", "dim": 8})
    ['norm: layer is now rms']
    """

    def named(value: Any) -> Any:
        return value.get("name", value) if isinstance(value, Mapping) else value

    both = [key for key in after if key in before]
    return [
        f"{key}: {named(before[key])} is now {named(after[key])}"
        for key in both
        if named(before[key]) != named(after[key])
    ]


def of_model(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters and tables of the model, by their names in it."""
    start = "model."
    return {
        name.removeprefix(start): weight for name, weight in state.items() if name.startswith(start)
    }


def count(names: Iterable[str], state: Mapping[str, Tensor]) -> str:
    """How many tensors, and how many numbers they hold."""
    sizes = [state[name].numel() for name in names]
    return f"{len(sizes)} of {len(state)} tensors, {sum(sizes):,} numbers"


def folded(names: Mapping[str, str]) -> list[str]:
    """Names with what is said of each, once for all layers.

    >>> folded({"layers.0.norm.bias": "", "layers.1.norm.bias": "", "head.weight": ""})
    ['layers.*.norm.bias', 'head.weight']
    """
    alike: dict[str, list[str]] = {}
    for name, said in names.items():
        alike.setdefault(re.sub(r"\.\d+\.", ".*.", name) + said, []).append(name + said)
    return [pattern if len(own) > 1 else own[0] for pattern, own in alike.items()]


def texts_of(tokenizer: Mapping[str, Any]) -> Any:
    """The vocabularies in the state of one or two tokenizers, without labels and languages."""
    return tokenizer.get("states", tokenizer.get("state"))
