"""What becomes of the trained weights that a training begins with."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from tfzoo.base.terminal import notify, relative_path
from tfzoo.errors import BadRun, listing
from tfzoo.learning.adapter import WITHIN
from tfzoo.learning.trained_run import TrainedRun

SHOWN = 12
"""The most names of weights that are shown of each kind."""


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
            f"{relative_path(run.path)}: none of its {len(kept)} weights has the name and "
            "shape of one of this model's"
        )
    task.load_state_dict({**own, **fits})
    entry, parts = run.entry, [*map(of_model, (own, kept, fits))]
    rows = compared(*parts)
    changed = swapped(entry["recipe"].get("model", {}), task.recipe.get("model", {}))
    rows += [("swapped", ", ".join(changed))] if changed else []
    task.began, task.anew = dict(rows), sorted(own.keys() - fits.keys())
    warn(run, parts[0], parts[2])
    if texts_of(entry["tokenizer"]) != texts_of(task.tokenizer.state()):
        another = "another one: a row of its embeddings stood for another word"
        rows.append(("tokenizer", another))
    labels, wanted = (one.get("labels") for one in (entry["tokenizer"], task.tokenizer.state()))
    if labels and wanted and labels != wanted and len(labels) == len(wanted):
        rows.append(("labels", f"others: a row of the head stood for {listing(labels)}"))
    return rows


def warn(run: TrainedRun, own: Mapping[str, Tensor], fits: Mapping[str, Tensor]) -> None:
    """Say that less than half of the weights ``own`` of a model are the run's, ``fits``."""
    size, kept = (sum(one.numel() for one in state.values()) for state in (own, fits))
    if 2 * kept >= size:
        return
    folder = run.folder and relative_path(run.folder)
    keep = f". To keep its model: tfzoo fit {folder}/config.yaml --from {folder}"
    notify(
        f"from {relative_path(run.path)}: only {kept / size:.1%} of this model's "
        "parameters are kept, the rest starts anew: it has other sizes or parts"
        + (keep if folder else "")
    )


def compared(
    own: Mapping[str, Tensor], kept: Mapping[str, Tensor], fits: Mapping[str, Tensor]
) -> list[tuple[str, str]]:
    """What became of a new model's ``own`` weights, and of those ``kept`` in a run, of which some
    fitted.
    """
    anew = {
        name: f", whose shape was {list(kept[name].shape)}" if name in kept else ""
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
    return [
        (kind, f"{count(names, state)}: {listing(folded(names), SHOWN)}")
        for kind, names in kinds.items()
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
