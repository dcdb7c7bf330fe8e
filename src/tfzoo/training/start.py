"""What a training begins with: what ``from`` gives to a recipe, and what becomes of the weights."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tfzoo.base.registry import registry
from tfzoo.base.terminal import notify, relative_path
from tfzoo.config.recipe import FROM, Option, Source, order, task_of
from tfzoo.errors import BadRecipe, BadRun, listing
from tfzoo.learning import published
from tfzoo.learning.adapter import WITHIN
from tfzoo.learning.trained_run import TrainedRun

SHOWN = 12
"""The most names of weights that are shown of each kind."""
KNOWN: dict[tuple[Path, int], tuple[Any, dict[str, Any]]] = {}
"""Task and entry of runs that training begins with: the cells of a sweep share them."""


@dataclass(frozen=True)
class Start:
    """What a training begins with.

    Args:
        run: what its weights are read from.
        tokenizer: name and options of a run's tokenizer; None where its text has another form.
        states: its vocabulary, or those of source and target.
    """

    run: TrainedRun
    tokenizer: Any = None
    states: Sequence[str] = ()

    def vocabularies(self, data: Mapping[str, Any]) -> Sequence[str]:
        """The vocabularies of the run, where the section ``data`` names the same tokenizer; else
        none, and new ones are made of the text.
        """
        if not self.states:
            return ()
        known = registry("tokenizer")
        (entry, options), (own, trained) = map(known.options, (data["tokenizer"], self.tokenizer))
        defaults = {key: option.default for key, option in entry.options.items()}
        same = own is entry and {**defaults, **options} == {**defaults, **trained}
        if not same or data.get("joint") not in (None, len(self.states) == 1):
            return ()
        notify(f"tokenizer: that of {relative_path(self.run.path)}")
        return self.states


def begin(
    files: Sequence[Source], overrides: Sequence[Source] = (), own: str | None = None
) -> tuple[Sequence[Source], Sequence[Source], Start | None]:
    """The ``files`` of a recipe and what overrides them, with what the last ``from`` gives, and the
    start of training, if there is one: the arguments of :meth:`tfzoo.config.config.Config.parse`.

    A run of tfzoo gives weights and tokenizer. A folder of ``transformers``, or its export, which
    no recipe has trained, gives the model as well. They override what stands before the file that
    says ``from``, and its own keys override them; ``--from`` stands after ``files``. ``{seed}`` in
    the name is the seed, so that each run of a sweep begins with one of its own. A run ``own`` that
    began with it and goes on gives model and tokenizer itself.

    Raises:
        BadRecipe: it is no name.
        BadRun: what it names is not there or cannot be read.
    """
    sources, count = [*files, *sorted(overrides, key=order)], len(files)
    places = [place for place, source in enumerate(sources) if FROM in source.values]
    source = sources[places[-1]] if places else Source({FROM: None}, "")
    name = source.values[FROM]
    if name is None:
        return files, overrides, None
    place = count if isinstance(source, Option) else places[-1]
    if not isinstance(name, str):
        raise BadRecipe(f"{source.origin}: {FROM} names a run, folder or repository, not {name!r}")
    task = task_of(sources)  # which imports Lightning
    from tfzoo.data.module import TextData

    seeds = [one.values["seed"] for one in sources if "seed" in one.values]
    run = None
    with suppress(BadRun):
        run = TrainedRun(own) if own else None
    goes_on, run = run is not None, run or TrainedRun(name.replace("{seed}", str([0, *seeds][-1])))
    start, values = Start(run), {}
    if run.is_published:
        values = published.starting_values(run.path.absolute(), task)
    elif issubclass(task.Data, TextData):
        key = run.path.resolve(), run.path.stat().st_mtime_ns
        if key not in KNOWN:  # a checkpoint is read whole, for its checksums
            KNOWN[key] = run.task, run.entry
        trained, entry = KNOWN[key]
        state, model = entry["tokenizer"], entry["recipe"].get("model")
        if goes_on:
            values = {"model": model}
        elif "data" not in entry["recipe"] and isinstance(model, dict):
            values = {"model": published.starting_model(model, task)}
        if trained.tokenizer_of_data == task.tokenizer_of_data:
            states = state.get("states", [state.get("state")])
            if not isinstance(states, list) or not all(isinstance(one, str) for one in states):
                raise BadRun(f"{run.path} is damaged: it has no vocabulary")
            start = Start(run, state.get("tokenizer"), states)
            joint = {"joint": len(states) == 1} if "states" in state else {}
            values["data"] = {"tokenizer": start.tokenizer, **joint}
    sources.insert(place, Source(values, f"{FROM} {name}"))
    count += place < count
    return sources[:count], sources[count:], start


def load(run: TrainedRun, task: Any) -> list[tuple[str, str]]:
    """Copy the weights that have the name and shape of one of a new task's. Returns the rows of a
    table: what is kept, starts anew, is dropped, and which options of the model are other ones. A
    BadRun where no weight fits.
    """
    own, kept = task.state_dict(), run.weights
    beside = run.content.get("beside", {})
    kept = {**kept, **{name: weight for name, weight in beside.items() if name in own}}
    fits = {
        name: weight
        for name, weight in kept.items()
        if name in own and weight.shape == own[name].shape
    }
    if not fits:
        raise BadRun(
            f"{relative_path(run.path)}: none of its {len(kept)} weights has the name and shape of "
            "one of this model's"
        )
    task.load_state_dict({**own, **fits})
    entry, parts = run.entry, [*map(of_model, (own, kept, fits))]
    rows = compared(*parts)
    changed = swapped(entry["recipe"].get("model", {}), task.recipe.get("model", {}))
    rows += [("swapped", ", ".join(changed))] if changed else []
    task.began, task.anew = dict(rows), sorted(own.keys() - fits.keys())
    warn(run, task, parts[0], parts[2])
    if texts_of(entry["tokenizer"]) != texts_of(task.tokenizer.state()):
        another = "another one: a row of its embeddings stood for another word"
        rows.append(("tokenizer", another))
    labels, wanted = (one.get("labels") for one in (entry["tokenizer"], task.tokenizer.state()))
    if labels and wanted and labels != wanted and len(labels) == len(wanted):
        rows.append(("labels", f"others: a row of the head stood for {listing(labels)}"))
    return rows


def warn(run: TrainedRun, task: Any, own: Mapping[str, Tensor], fits: Mapping[str, Tensor]) -> None:
    """Say that less than half of the tensors ``own`` of a model are the run's, ``fits``."""
    if 2 * len(fits) >= len(own):
        return
    folder = run.folder and relative_path(run.folder)
    keep = f". To keep its model: tfzoo fit {folder}/config.yaml --from {folder}"
    notify(
        f"from {relative_path(run.path)}: only {len(fits)} of {len(own)} tensors of this model are "
        "kept, the rest starts anew: it has other sizes or parts"
        + (keep if folder and isinstance(task, run.task) else "")
    )


def compared(
    own: Mapping[str, Tensor], kept: Mapping[str, Tensor], fits: Mapping[str, Tensor]
) -> list[tuple[str, str]]:
    """What became of a new model's ``own`` weights, and of those ``kept`` in a run, of which some
    fitted.
    """
    anew = {
        name: f" (was {list(kept[name].shape)})" if name in kept else ""
        for name in own
        if name not in fits
    }
    dropped = dict.fromkeys((name for name in kept if name not in own), "")
    rows = named_rows({"started anew": anew}, own) + named_rows({"dropped": dropped}, kept)
    return [("kept", count(fits, own)), *rows]


def trained(task: Any) -> list[tuple[str, str]]:
    """Rows of the table: which parameters of a task's model are trained, which are frozen, and
    which of those are frozen that start anew.
    """
    state = {name.replace(WITHIN, "."): one for name, one in task.model.named_parameters()}
    frozen = {name: "" for name, one in state.items() if not one.requires_grad}
    if not frozen:
        return [("trained", "all parameters")]
    kinds = {"trained": dict.fromkeys(state.keys() - frozen.keys(), ""), "frozen": frozen}
    kinds["anew and frozen"] = {name: "" for name in frozen if f"model.{name}" in task.anew}
    return named_rows(kinds, state)


def named_rows(
    kinds: Mapping[str, Mapping[str, str]], state: Mapping[str, Tensor]
) -> list[tuple[str, str]]:
    """A row for each kind of tensors: how many of ``state`` they are, and their names."""
    rows = []
    for kind, names in kinds.items():
        if some := sorted(folded(names)):
            more = ", ..." * (len(some) > SHOWN)
            rows.append((kind, f"{count(names, state)}: {', '.join(some[:SHOWN])}{more}"))
    return rows


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
    return {
        name.removeprefix("model."): weight
        for name, weight in state.items()
        if name.startswith("model.")
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
