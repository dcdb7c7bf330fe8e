"""``runs.csv``: the results of a sweep, one row per run, collected from the sweep's folder."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from tfzoo.base.files import object_of, replacing
from tfzoo.base.yaml_files import read_yaml
from tfzoo.errors import BadRun
from tfzoo.runs.folder import RUNS, logged_curves, read_summary
from tfzoo.sweep.plan.sweep_file import MEASURED_COLUMNS, STATUS_COLUMNS, Plan, parse
from tfzoo.sweep.run import tune
from tfzoo.sweep.run.state import CELLS, ENDED, SWEEP, Run, planned_runs

FILE = "runs.csv"
Row = dict[str, Any]


@dataclass(frozen=True)
class SweepFolder:
    """A sweep's folder: the command that created it, and its plan, with the cells refused then."""

    path: Path
    command: str
    plan: Plan

    @classmethod
    def open(cls, given: str | Path) -> SweepFolder:
        """Read ``sweep.yaml`` and ``cells.json``.

        Raises:
            BadRun: the folder does not exist, is not a sweep's, or is damaged.
            BadRecipe, BadOption, UnknownName: its sweep file has a mistake.
        """
        path = Path(given)
        if not (path / CELLS).is_file():
            near = [*sorted(path.glob("*")), *path.parents, RUNS / path.stem]
            meant = [one for one in near if (one / CELLS).is_file()]
            hint = f"Did you mean {meant[0]}?" if meant else "tfzoo sweep FILE creates one"
            raise BadRun(f"{given} is not the folder of a sweep: it has no {CELLS}. {hint}")
        try:
            plan = parse(path / SWEEP, read_yaml(path / SWEEP))
            made = json.loads((path / CELLS).read_text("utf-8"))
            refused = made["cells"]
            cells = [replace(cell, refused=str(refused[cell.name])) for cell in plan.cells]
            return cls(path, str(made["command"]), replace(plan, cells=cells))
        except (ValueError, KeyError, TypeError) as error:
            raise BadRun(
                f"{given} is damaged: {' '.join(f'{type(error).__name__}: {error}'.split())}. "
                "Its tfzoo sweep command writes it again"
            ) from None

    @property
    def runs(self) -> list[Run]:
        """The planned runs, cell by cell."""
        return sorted(planned_runs(self.plan, self.path), key=lambda run: run.number)

    def summaries(self) -> Iterator[dict[str, Any]]:
        """The summaries of all runs that have one, without tuning trials."""
        yield from filter(None, (read_summary(run.folder) for run in self.runs))


def table(folder: str | Path | SweepFolder) -> list[Row]:
    """The rows of a sweep: one per cell and seed, in the order of the plan; a refused cell has one
    row without a seed.

    All rows have the same keys, in the order of the columns of ``runs.csv``; a missing value is
    None.
    """
    opened = folder if isinstance(folder, SweepFolder) else SweepFolder.open(folder)
    by_cell: dict[str, list[Row]] = {
        cell.name: [{"cell": cell.name, **cell.labels, "status": "refused", "reason": cell.refused}]
        * bool(cell.refused)
        for cell in opened.plan.cells
    }
    for run in opened.runs:
        by_cell[run.cell.name].append(row(run, run.folder.relative_to(opened.path).as_posix()))
    rows = [row for own in by_cell.values() for row in own]
    first = ("cell", *opened.plan.axes, *STATUS_COLUMNS)
    scores = sorted({key for row in rows for key in row} - {*first, *MEASURED_COLUMNS})
    columns = (*first, *scores, *MEASURED_COLUMNS)
    return [{key: row.get(key) for key in columns} for row in rows]


def row(run: Run, place: str) -> Row:
    """The row of one run, which lies at this place in the sweep's folder, which may be moved."""
    fit, found = read_summary(run.folder).get("fit", {}), run.outcome
    status = found.state if found.is_over else "missing"
    ended = status in ENDED
    curves = logged_curves(run.folder).items() if ended else ()
    explained = {name: fmean(one.values()) for name, one in curves if name[:8] == "explain/"}
    peak, checkpoint = fit.get("peak_memory") or {}, fit.get("checkpoint")
    return {
        "cell": run.cell.name,
        **run.cell.labels,
        "seed": run.seed,
        "tuned": object_of(run.folder.parent / tune.FILE).get("value"),
        "status": status,
        "reason": found.reason,
        **({**run.scores, **explained} if ended else {}),
        **{key: fit.get(key) for key in MEASURED_COLUMNS},
        "train_tokens": fit.get("tokens"),
        "peak_memory": peak.get("gpu", peak.get("process")),
        "checkpoint_path": checkpoint and f"{place}/checkpoints/{Path(checkpoint).name}",
        "run_folder": place if fit else None,
    }


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV, whole or not at all; numbers keep all their digits."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
