"""How values become labels, labels cells, and cells folders; the columns beside the axes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import product
from typing import Any

LONGEST = 120
"""Bytes of a folder's name; file systems take 255."""

BEFORE = ("cell",)
TOLD = ("seed", "tuned", "status", "reason")
MEASURED = (
    *(
        "parameters",
        "train_tokens",
        "steps",
        "tokens_per_second",
        "decoded_per_second",
        "train_seconds",
        "peak_memory",
    ),
    *("checkpoint_path", "run_folder", "hostname"),
)
"""The columns of ``runs.csv``: before the axes, after them, and after the scores."""
WORDS = ("cell", "status", "reason", "checkpoint_path", "run_folder", "hostname")
"""Columns that are text even where they look like numbers; so are those of the axes."""

Axes = Mapping[str, Mapping[str, Mapping[str, Any]]]


def label(value: Any) -> str:
    """A value as a table shows it: ``rms``, ``rms eps=1e-06``, ``0.001``."""
    if isinstance(value, Mapping):
        rest = [f"{key}={label(inner)}" for key, inner in value.items() if key != "name"]
        return " ".join([*([label(value["name"])] if "name" in value else []), *rest])
    if isinstance(value, list):
        return f"[{', '.join(map(label, value))}]"
    return text(value)


def text(value: Any) -> str:
    """A value as an option of the command line has it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def combine(axes: Axes, mode: str, baseline: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The labels of each cell: all combinations, or the baseline and what differs from it in one
    axis.
    """
    if mode == "grid":
        for labels in product(*axes.values()):
            yield dict(zip(axes, labels, strict=True))
        return
    yield dict(baseline)
    for axis, values in axes.items():
        yield from ({**baseline, axis: one} for one in values if one != baseline[axis])


def settings(axes: Axes, labels: Mapping[str, str]) -> dict[str, Any]:
    """The recipe's keys that the labels mean."""
    return {key: value for axis, one in labels.items() for key, value in axes[axis][one].items()}


def keys(settings: Mapping[str, Any]) -> Iterator[str]:
    """The keys that are set, also those of options: ``{model.norm: {name: rms, eps: 1}}`` sets
    ``model.norm`` and ``model.norm.eps``.
    """
    for key, value in settings.items():
        yield key
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value if inner != "name")


def name(labels: Mapping[str, str]) -> str:
    """The folder of a cell: ``norm=layer,width=one_head``. Axes are named by the last part of their
    key, where one alone has it.
    """
    last = [axis.rpartition(".")[2] for axis in labels]
    short = [end if last.count(end) == 1 else axis for axis, end in zip(labels, last, strict=True)]
    pairs = [f"{axis}={one}" for axis, one in zip(short, labels.values(), strict=True)]
    found = ",".join(safe(pair) for pair in pairs)
    if len(found.encode()) <= LONGEST:
        return found
    return f"{found.encode()[:LONGEST].decode(errors='ignore')}-{blake2b(json.dumps(labels).encode(), digest_size=4).hexdigest()}"


def safe(text: str) -> str:
    """A text as part of a file's name."""
    return re.sub(r"[^\w.=+-]+", "_", text).strip("_")
