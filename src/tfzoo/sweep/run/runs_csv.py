"""``runs.csv``: the results of a sweep, one row per run, collected from the sweep's folder."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from tfzoo.base.bounded_files import object_of
from tfzoo.errors import BadRun
from tfzoo.runs.files import replacing
from tfzoo.runs.folder import read_config, read_summary
from tfzoo.runs.logged import logged_curves
from tfzoo.sweep.plan.layout import CELL_COLUMNS, MEASURED_COLUMNS, STATUS_COLUMNS
from tfzoo.sweep.plan.sweep_file import Budget
from tfzoo.sweep.run import tune
from tfzoo.sweep.run.state import CELLS, SWEEP, outcome, scores

FILE = "runs.csv"
Row = dict[str, Any]


@dataclass(frozen=True)
class SweepFolder:
    """A sweep's folder: the command that created it, the resolved sweep file, the cells, and what
    each run is to measure and to use.
    """

    path: Path
    command: str
    file: dict[str, Any]
    cells: list[dict[str, Any]]
    metrics: list[str]
    budget: Budget

    @classmethod
    def open(cls, given: str | Path) -> SweepFolder:
        """Read ``sweep.yaml`` and ``cells.json``.

        Raises:
            BadRun: the folder does not exist, is not a sweep's, or is damaged.
        """
        path = Path(given)
        if not (path / CELLS).is_file():
            inside = sorted(str(found.parent) for found in path.glob(f"*/{CELLS}"))
            hint = f"Did you mean {inside[0]}?" if inside else "tfzoo sweep FILE creates one"
            raise BadRun(f"{given} is not the folder of a sweep: it has no {CELLS}. {hint}")
        try:
            cells = json.loads((path / CELLS).read_text("utf-8"))
            file = yaml.safe_load((path / SWEEP).read_text("utf-8"))
            return cls(
                path,
                str(cells["command"]),
                dict(file),
                list(cells["cells"]),
                [str(one["name"]) for one in [file["metric"], *(file.get("also") or [])]],
                Budget(**(file.get("budget") or {})),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
            why = " ".join(str(error).split())[:120]
            raise BadRun(
                f"{given} is damaged: {type(error).__name__}: {why}. "
                "Its tfzoo sweep command writes it again"
            ) from None

    @property
    def seeds(self) -> list[int]:
        """The seeds of the sweep file."""
        return [int(seed) for seed in self.file.get("seeds") or []]

    def recipe(self, cell: str) -> dict[str, Any]:
        """The configuration of a cell's runs; empty if it has none."""
        found = (read_config(self.path / cell / f"seed-{seed}") for seed in self.seeds)
        return next(filter(None, found), {})

    def summaries(self) -> Iterator[dict[str, Any]]:
        """The summaries of all runs that have one, without tuning trials."""
        for cell in self.cells:
            for seed in self.seeds:
                if found := read_summary(self.path / cell["name"] / f"seed-{seed}"):
                    yield found


def table(folder: str | Path | SweepFolder) -> list[Row]:
    """The rows of a sweep: one per cell and seed, in the order of the plan; a refused cell has one
    row without a seed.

    All rows have the same keys, in the order of the columns of ``runs.csv``; a missing value is
    None.
    """
    opened = folder if isinstance(folder, SweepFolder) else SweepFolder.open(folder)
    rows = [
        row(opened, cell, seed)
        for cell in opened.cells
        for seed in ([None] if cell["refused"] else opened.seeds)
    ]
    first = (*CELL_COLUMNS, *opened.cells[0]["labels"], *STATUS_COLUMNS)
    scores = sorted({key for row in rows for key in row} - {*first, *MEASURED_COLUMNS})
    columns = (*first, *scores, *MEASURED_COLUMNS)
    return [{key: row.get(key) for key in columns} for row in rows]


def row(folder: SweepFolder, cell: Mapping[str, Any], seed: int | None) -> Row:
    """The row of one run. Paths are relative to the sweep's folder, which may be moved."""
    first = {"cell": cell["name"], **cell["labels"], "seed": seed}
    if seed is None:
        return {**first, "status": "refused", "reason": cell["refused"]}
    place = f"{cell['name']}/seed-{seed}"
    path = folder.path / place
    fit = read_summary(path).get("fit", {})
    found = outcome(path, folder.metrics, folder.budget)
    status = found.state if found.is_over else "missing"
    values = {**scores(path), **explained(path)} if status in ("completed", "diverged") else {}
    peak, checkpoint = fit.get("peak_memory") or {}, fit.get("checkpoint")
    measured = {key: fit.get(key) for key in MEASURED_COLUMNS} | {
        "train_tokens": fit.get("tokens"),
        "peak_memory": peak.get("gpu", peak.get("process")),
        "checkpoint_path": checkpoint and f"{place}/checkpoints/{Path(checkpoint).name}",
        "run_folder": place if fit else None,
    }
    return {
        **first,
        "tuned": object_of(path.parent / tune.FILE).get("value"),
        "status": status,
        "reason": found.reason,
        **values,
        **measured,
    }


def explained(path: Path) -> dict[str, float]:
    """The mean over training of each ``explain/`` value; empty if nothing was logged."""
    return {
        name: fmean(curve.values())
        for name, curve in logged_curves(path).items()
        if name.startswith("explain/")
    }


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV, whole or not at all; numbers keep all their digits."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
