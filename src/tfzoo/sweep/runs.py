"""``runs.csv``: what came of a sweep, one row per run, read from the folder that the sweep left."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from tfzoo.errors import BadRun
from tfzoo.runs import summary
from tfzoo.sweep import state, tune
from tfzoo.sweep.layout import BEFORE, MEASURED, TOLD, WORDS

FILE = "runs.csv"
METRICS = "metrics.csv"
Row = dict[str, Any]


@dataclass(frozen=True)
class Folder:
    """A sweep's folder: the command that made it, the resolved sweep file and the cells."""

    path: Path
    command: str
    file: dict[str, Any]
    cells: list[dict[str, Any]]

    @classmethod
    def open(cls, given: str | Path) -> Folder:
        """Read what says which cells there are.

        Raises:
            BadRun: no such folder, not a sweep's, or damaged.
        """
        path = Path(given)
        if not path.is_dir():
            raise BadRun(
                f"no folder {given}. Name the folder of a sweep: tfzoo report runs/position"
            )
        if not (path / state.CELLS).is_file():
            inside = sorted(str(found.parent) for found in path.glob(f"*/{state.CELLS}"))
            hint = f"Did you mean {inside[0]}?" if inside else "tfzoo sweep FILE makes one"
            raise BadRun(f"{given} is no sweep's folder: it has no {state.CELLS}. {hint}")
        try:
            cells = json.loads((path / state.CELLS).read_text("utf-8"))
            file = yaml.safe_load((path / state.SWEEP).read_text("utf-8"))
            return cls(
                path, str(cells["command"]), dict(file), [cell_of(cell) for cell in cells["cells"]]
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
            why = " ".join(str(error).split())[:120]
            raise BadRun(
                f"{given} is damaged: {type(error).__name__}: {why}. Start its tfzoo sweep again, which writes it anew"
            ) from None

    @property
    def seeds(self) -> list[int]:
        """Those that the sweep file asks for."""
        return [int(seed) for seed in self.file.get("seeds") or []]

    def recipe(self, cell: str) -> dict[str, Any]:
        """What a cell's runs were started with, but for their seeds; empty where there is no run."""
        found = (state.settings(self.path / cell / f"seed-{seed}") for seed in self.seeds)
        return next(filter(None, found), {})

    def summaries(self) -> Iterator[dict[str, Any]]:
        """Of all runs that have one, tuning left out."""
        for cell in self.cells:
            for seed in self.seeds:
                if found := summary.read(self.path / cell["name"] / f"seed-{seed}"):
                    yield found


def cell_of(cell: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of ``cells.json``, in full."""
    labels = {str(axis): str(label) for axis, label in cell["labels"].items()}
    return {
        "name": str(cell["name"]),
        "labels": labels,
        "settings": dict(cell["settings"]),
        "refused": str(cell.get("refused") or ""),
    }


def table(folder: str | Path | Folder) -> list[Row]:
    """The rows of a sweep's folder: one per cell and seed, in the order of the plan; a refused cell
    has one without a seed.

    All rows have the same keys; None is what does not exist.
    """
    opened = folder if isinstance(folder, Folder) else Folder.open(folder)
    rows = []
    for cell in opened.cells:
        for seed in [None] if cell["refused"] else opened.seeds:
            rows.append(row_of(opened, cell, seed))
    return even(rows)


def row_of(folder: Folder, cell: Mapping[str, Any], seed: int | None) -> Row:
    """What is known of one run."""
    first = {"cell": cell["name"], **cell["labels"], "seed": seed}
    if seed is None:
        return {**first, "status": "refused", "reason": cell["refused"]}
    path = folder.path / cell["name"] / f"seed-{seed}"
    fit = summary.read(path).get("fit", {})
    status, reason = ended(path, fit)
    scores = {**state.scores(path), **explained(path)} if status == "completed" else {}
    peak = fit.get("peak_memory") or {}
    measured = {
        "parameters": fit.get("parameters"),
        "train_tokens": fit.get("tokens"),
        "steps": fit.get("steps"),
        "tokens_per_second": fit.get("tokens_per_second"),
        "decoded_per_second": fit.get("decoded_per_second"),
        "train_seconds": fit.get("train_seconds"),
        "peak_memory": peak.get("gpu", peak.get("process")),
        "checkpoint_path": beside(folder.path, fit.get("checkpoint"), path),
        "run_folder": path.relative_to(folder.path).as_posix() if fit else None,
        "hostname": fit.get("hostname"),
    }
    return {
        **first,
        "tuned": tuned(path.parent),
        "status": status,
        "reason": reason,
        **scores,
        **measured,
    }


def explained(path: Path) -> dict[str, float]:
    """What ``explain: true`` logged, each the mean over the steps at which it was; empty where
    nothing was.
    """
    found: dict[str, list[float]] = {}
    with (
        suppress(OSError, ValueError),
        (path / METRICS).open(newline="", encoding="utf-8") as stream,
    ):
        for row in csv.DictReader(stream):
            for key, text in row.items():
                if key.startswith("explain/") and text:
                    logged = float(text)
                    found.setdefault(key, []).append(logged)
    return {key: fmean(values) for key, values in found.items()}


def ended(path: Path, fit: Mapping[str, Any]) -> tuple[str, str | None]:
    """``completed``, ``failed`` and why, or ``missing``: not begun, under way, or half done."""
    if failed := state.failure(path):
        return "failed", str(failed.get("reason", "for a reason that was not noted"))
    if state.complete(path):
        return "completed", None
    word, _, why = str(fit.get("ended", "")).partition(": ")
    return ("failed", why) if word == "failed" else ("missing", None)


def tuned(cell: Path) -> Any:
    """The value that was found best for a cell, where one was looked for."""
    try:
        value = json.loads((cell / tune.FILE).read_text("utf-8"))["value"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if value is None or isinstance(value, int | float | str) else json.dumps(value)


def beside(top: Path, checkpoint: str | None, run: Path) -> str | None:
    """A checkpoint's path from the sweep's folder, wherever that lies today."""
    if not checkpoint:
        return None
    here = run / "checkpoints" / Path(checkpoint).name
    return here.relative_to(top).as_posix() if here.exists() else checkpoint


def even(rows: Sequence[Row]) -> list[Row]:
    """The same rows with the same keys, in the order of the columns of ``runs.csv``."""
    known = {key: None for row in rows for key in row}
    axes = list(known)[1 : list(known).index("seed")] if "seed" in known else []
    fixed = {*BEFORE, *axes, *TOLD, *MEASURED}
    scores = sorted(key for key in known if key not in fixed)
    return [
        {key: row.get(key) for key in (*BEFORE, *axes, *TOLD, *scores, *MEASURED)} for row in rows
    ]


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows under their name in one step; a number reads back as it was."""
    draft = path.with_suffix(".tmp")
    with draft.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(
            stream, list(rows[0]) if rows else [*BEFORE, *TOLD, *MEASURED], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(rows)
    os.replace(draft, path)


def read_csv(path: Path) -> list[Row]:
    """What :func:`write_csv` wrote: numbers as numbers, an empty field as None."""
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        names = list(reader.fieldnames or [])
        axes = names[1 : names.index("seed")] if "seed" in names else []
        return [
            {
                key: text or None if key in (*WORDS, *axes) else value(text)
                for key, text in row.items()
            }
            for row in reader
        ]


def value(text: str) -> Any:
    """A number where the text is one, None where there is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
