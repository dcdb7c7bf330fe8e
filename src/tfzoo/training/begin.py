"""The weights that a training begins with: which are kept, which start anew, which are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from tfzoo.base.terminal import notify, relative_path
from tfzoo.config.start import Start
from tfzoo.data.prepare import identity
from tfzoo.errors import BadRun, listing
from tfzoo.learning.adapter import holds_adapter
from tfzoo.runs.run import Run

SHOWN = 12
"""The most names that are shown of each kind."""


def load_weights(task: Any, run: Run) -> tuple[str, list[tuple[str, str]]]:
    """Copy the weights of a run that have the name and shape of one of a new task's. Returns the
    title and rows of a table for the user.

    Raises:
        BadRun: it is damaged, or no weight of it fits.
    """
    name, entry = relative_path(run.path), run.entry
    own, given = task.state_dict(), run.content["state_dict"]
    if holds_adapter(given):
        given = run.load().state_dict()
    beside = run.content.get("beside", {})
    given = {**given, **{key: one for key, one in beside.items() if key in own}}
    fits = {
        key: value for key, value in given.items() if key in own and value.shape == own[key].shape
    }
    if not fits:
        raise BadRun(
            f"{name}: none of its {len(given)} weights has the name and shape of one of this "
            "model's"
        )
    task.load_state_dict({**own, **fits})
    own, given, fits = (of_model(one) for one in (own, given, fits))
    anew = {
        key: f", whose shape was {list(given[key].shape)}" if key in given else ""
        for key in own
        if key not in fits
    }
    dropped = dict.fromkeys((key for key in given if key not in own), "")
    rows = [("kept", count(fits, own))]
    rows += [
        (kind, f"{count(names, state)}: {listing(folded(names), SHOWN)}")
        for kind, names, state in (("started anew", anew, own), ("dropped", dropped, given))
        if names
    ]
    changed = swapped(entry["recipe"].get("model", {}), task.recipe.get("model", {}))
    task.began = {**dict(rows), **({"swapped": ", ".join(changed)} if changed else {})}
    if texts_of(entry["tokenizer"]) != texts_of(task.tokenizer_state()):
        rows.append(("tokenizer", "another one: a row of its embeddings stood for another word"))
    return f"weights of {name}", rows


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


def states_of(start: Start, data: Mapping[str, Any]) -> Sequence[str]:
    """The vocabularies that training takes from what it begins with: where the section ``data``
    names the same tokenizer; else none, and new ones are made of its text.
    """
    same = identity("tokenizer", data["tokenizer"]) == identity("tokenizer", start.tokenizer)
    if not same or data.get("joint") not in (None, len(start.states) == 1):
        return ()
    notify(f"tokenizer: that of {relative_path(start.run.path)}")
    return start.states


def of_model(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters and tables of the model, by their names in it."""
    start = "model."
    return {key.removeprefix(start): one for key, one in state.items() if key.startswith(start)}


def count(names: Iterable[str], state: Mapping[str, Tensor]) -> str:
    """How many tensors, and how many numbers they hold."""
    sizes = [state[name].numel() for name in names]
    return f"{len(sizes)} of {len(state)} tensors, {sum(sizes):,} numbers"


def folded(names: Mapping[str, str]) -> list[str]:
    """Names with what is said of each, once for all layers.

    >>> folded({"layers.0.norm.bias": "", "layers.1.norm.bias": "", "head.weight": ""})
    ['layers.*.norm.bias', 'head.weight']
    """
    return list(
        dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name) + said for name, said in names.items())
    )


def texts_of(tokenizer: Mapping[str, Any]) -> Any:
    """The vocabularies in the state of one or two tokenizers, without labels and languages."""
    return tokenizer.get("states", tokenizer.get("state"))
