"""Labels of values, cells of labels, names of folders, and the fixed columns of ``runs.csv``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import product
from typing import Any

from tfzoo.sweep.judge.effects import axis_name

MAX_NAME_BYTES = 120
"""Of a folder's name; file systems allow 255."""

STATUS_COLUMNS = ("seed", "tuned", "status", "reason")
MEASURED_COLUMNS = (
    *(
        "parameters",
        "train_tokens",
        "steps",
        "tokens_per_second",
        "train_seconds",
        "peak_memory",
    ),
    *("checkpoint_path", "run_folder", "hostname"),
)
"""The columns of ``runs.csv`` between axes and scores, and after the scores."""

Axes = Mapping[str, Mapping[str, Mapping[str, Any]]]


def label(value: Any) -> str:
    """A value as tables show it: ``rms``, ``rms eps=1e-06``, ``0.001``."""
    if isinstance(value, Mapping):
        rest = [f"{key}={label(inner)}" for key, inner in value.items() if key != "name"]
        return " ".join([*([label(value["name"])] if "name" in value else []), *rest])
    if isinstance(value, list):
        return f"[{', '.join(map(label, value))}]"
    return text(value)


def text(value: Any) -> str:
    """A value as an option of the command line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def combine(axes: Axes, mode: str, baseline: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The labels of each cell: all combinations (``grid``), or the baseline and the cells that
    differ from it on one axis (``one_at_a_time``).
    """
    if mode == "grid":
        for labels in product(*axes.values()):
            yield dict(zip(axes, labels, strict=True))
        return
    yield dict(baseline)
    for axis, values in axes.items():
        yield from ({**baseline, axis: one} for one in values if one != baseline[axis])


def settings(axes: Axes, labels: Mapping[str, str]) -> dict[str, Any]:
    """The recipe's keys that the labels stand for."""
    return {key: value for axis, one in labels.items() for key, value in axes[axis][one].items()}


def keys(settings: Mapping[str, Any]) -> Iterator[str]:
    """The keys that are set, with those of options: ``{model.norm: {name: rms, eps: 1}}`` sets
    ``model.norm`` and ``model.norm.eps``.
    """
    for key, value in settings.items():
        yield key
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value if inner != "name")


def name(labels: Mapping[str, str]) -> str:
    """The folder of a cell: ``norm=layer,width=one_head``."""
    found = ",".join(file_name(f"{axis_name(labels, axis)}={one}") for axis, one in labels.items())
    if len(found.encode()) <= MAX_NAME_BYTES:
        return found
    start = found.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    return f"{start}-{blake2b(json.dumps(labels).encode(), digest_size=4).hexdigest()}"


def file_name(text: str) -> str:
    """A text with all characters replaced that a file's name should not have."""
    return re.sub(r"[^\w.=+-]+", "_", text).strip("_")
