"""Start a new run from the weights of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from tfzoo.errors import BadRun, listing


def adopt(
    task: nn.Module, checkpoint: Mapping[str, Any], tokenizer: Mapping[str, Any], name: str
) -> list[str]:
    """Copy the weights of a checkpoint that have the name and shape of one of the task's own.
    Returns messages, one line each.

    Raises:
        BadRun: nothing fits.
    """
    own, given = task.state_dict(), checkpoint["state_dict"]
    fits = {
        key: value for key, value in given.items() if key in own and value.shape == own[key].shape
    }
    if not fits:
        raise BadRun(
            f"{name}: none of its {len(given)} weights has the name and shape of one of this "
            "model's"
        )
    task.load_state_dict({**own, **fits})
    shapes = [
        f"{key} {tuple(given[key].shape)} -> {tuple(own[key].shape)}"
        for key in given.keys() & own.keys() - fits.keys()
    ]
    lines = [f"{len(fits)} of {len(own)} weights are those of {name}"]
    for what, names in (
        ("other shapes", shapes),
        ("new here", own.keys() - given.keys()),
        ("not in this model", given.keys() - own.keys()),
    ):
        if names:
            lines.append(f"{what}: {listing(names, 6)}")
    if checkpoint["tfzoo"]["tokenizer"] != tokenizer:
        lines.append("its tokenizer is another one: a row of its embeddings stood for another word")
    return lines
