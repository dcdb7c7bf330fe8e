"""The results of a sweep: the runs of one or more folders, merged and judged."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun, UnknownName
from tfzoo.sweep.judge import effects
from tfzoo.sweep.judge.design import parse_margin
from tfzoo.sweep.judge.repeats import Repeat, repeats
from tfzoo.sweep.judge.verdicts import Dependence, Judged, Verdicts, interactions, judge
from tfzoo.sweep.plan.layout import STATUS_COLUMNS
from tfzoo.sweep.plan.sweep_file import Metric
from tfzoo.sweep.report import looks
from tfzoo.sweep.run.creation import differences
from tfzoo.sweep.run.runs_csv import Row, SweepFolder, align, table

COMPARED_KEYS = ("recipe", "module", "data", "overrides", "budget", "devices", "tune")
"""Keys of the sweep file that must be equal for two folders to be merged."""
PATH_KEYS = ("data.root", "data.train", "data.val")
"""Keys of the recipe that may differ between machines."""
LOWER_IS_BETTER = (
    "loss",
    "perplexity",
    "error",
    "seconds",
    "memory",
    "parameters",
    "tokens",
    "entropy",
)
"""Endings of metrics for which lower is better, where the sweep file does not say."""
AMBIGUOUS_LABELS = ("none", "null", "true", "false")


@dataclass(frozen=True)
class CellResult:
    """A cell with its runs and, for each metric, its comparison (None if it has no runs)."""

    name: str
    title: str
    labels: dict[str, str]
    refused: str
    rows: list[Row]
    judged: list[Judged | None]

    @property
    def done(self) -> list[Row]:
        """The completed runs."""
        return [row for row in self.rows if row["status"] == "completed"]

    @property
    def status(self) -> str:
        """The status of all its runs together."""
        if self.refused:
            return "refused"
        if all(row["status"] in ("completed", "diverged") for row in self.rows):
            return "completed"
        return "failed" if any(row["status"] == "failed" for row in self.rows) else "missing"

    def mean(self, column: str) -> float | None:
        """The mean of a column over the completed runs; None if it has no values."""
        found = [row[column] for row in self.done if isinstance(row.get(column), int | float)]
        return sum(found) / len(found) if found else None


@dataclass(frozen=True)
class Results:
    """All runs of one or more folders of the same sweep. ``verdicts`` has one entry per metric, the
    sweep's own metric first.
    """

    folders: list[SweepFolder]
    rows: list[Row]
    axes: dict[str, list[str]]
    baseline: dict[str, str]
    verdicts: list[Verdicts]
    dependences: dict[str, list[Dependence]]
    """The interactions of axes by metric; empty unless the sweep is a grid."""
    cells: list[CellResult]
    notes: list[str]
    repeats: dict[str, list[Repeat]]
    """By metric, if the other folders have other seeds than the first; verdicts and interactions
    are then of the first folder alone.
    """

    @property
    def file(self) -> dict[str, Any]:
        """The resolved sweep file."""
        return self.folders[0].file

    @property
    def name(self) -> str:
        """The name of the first folder."""
        return self.folders[0].path.resolve().name

    def axis_name(self, axis: str) -> str:
        """The last part of an axis's key, or the key if another axis ends the same."""
        return effects.axis_name(self.axes, axis)

    def title(self, judged: Judged) -> str:
        """The title of a cell, or the name of an axis and its value."""
        if len(judged.labels) > 1:
            return title(judged.labels, self.axes, self.baseline, self.file)
        ((axis, label),) = judged.labels.items()
        return f"{self.axis_name(axis)} {label}"


def gather(given: Sequence[str | Path], metric: str | None = None) -> Results:
    """Read, merge and judge the runs of folders, by ``metric`` or by the sweep file's metrics.

    Raises:
        BadRun: a folder is not a sweep's, or of another sweep than the first.
        UnknownName: no run has this metric.
    """
    folders = [SweepFolder.open(path) for path in given]
    for other in folders[1:]:
        check_comparable(folders[0], other)
    rows, notes = merge(folders)
    records = {cell["name"]: cell for folder in folders[::-1] for cell in folder.cells[::-1]}
    cells = [*records.values()][::-1]
    axes = {axis: [*{cell["labels"][axis]: None for cell in cells}] for axis in cells[0]["labels"]}
    file = folders[0].file
    baseline = dict(zip(axes, effects.baseline(axes, file.get("baseline") or {}), strict=True))
    judged_rows, again = halves(folders, rows)
    sample = looks.design(folders[:1] if again else folders)
    verdicts, dependences, repeated = [], {}, {}
    for one in metrics(file, rows, metric):
        design = replace(sample, margin=parse_margin(one.margin))
        stand_in = untrained(folders, one.name)
        found = judge(judged_rows, axes, baseline, one.name, one.mode, design, stand_in)
        verdicts.append(found)
        if own := interactions(judged_rows, axes, baseline, one.name, design, stand_in):
            dependences[one.name] = own
        if again:
            second = judge(again, axes, baseline, one.name, one.mode, design, stand_in)
            repeated[one.name] = repeats(found, second)
    if again:
        notes.append(
            f"verdicts are those of {folders[0].path.resolve().name}; what the others say of them "
            "stands under their repeat"
        )
    results = [
        CellResult(
            cell["name"],
            title(cell["labels"], axes, baseline, file),
            cell["labels"],
            cell["refused"],
            [row for row in rows if row["cell"] == cell["name"]],
            [
                next((one for one in found.cells if one.labels == cell["labels"]), None)
                for found in verdicts
            ],
        )
        for cell in cells
    ]
    return Results(
        *(folders, rows, axes, baseline, verdicts, dependences, results, notes, repeated)
    )


def untrained(folders: Sequence[SweepFolder], metric: str) -> float | None:
    """What a model scores that knows nothing, as the first run knows that does; None if none."""
    scores = (
        one.get("fit", {}).get("untrained", {}).get(metric.rpartition("/")[2])
        for folder in folders
        for one in folder.summaries()
    )
    return next((score for score in scores if score is not None), None)


def halves(folders: Sequence[SweepFolder], rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of the first folder and of the others, if those repeat it: with the same cells and
    no seed of it; else all rows, and none. Refused cells are in both.
    """
    first, *others = ({cell["name"] for cell in folder.cells} for folder in folders)
    seeds = {*folders[0].seeds}
    shared = any(seeds & {*folder.seeds} for folder in folders[1:])
    if not others or shared or any(cells != first for cells in others):
        return rows, []
    return (
        [row for row in rows if row["seed"] is None or row["seed"] in seeds],
        [row for row in rows if row["seed"] is None or row["seed"] not in seeds],
    )


def check_comparable(first: SweepFolder, other: SweepFolder) -> None:
    """Check that the runs of two folders can be compared.

    Raises:
        BadRun: naming what differs.
    """
    both = {cell["name"] for cell in first.cells} & {cell["name"] for cell in other.cells}
    found = differences(compared(first, both), compared(other, both))
    tuned = (first.file.get("tune") or {}).get("key", "")
    for name in sorted(both):
        recipes = [folder.recipe(name) for folder in (first, other)]
        if all(recipes):
            changed = differences(recipes[0], recipes[1], "seed", tuned, *PATH_KEYS)
            found += [(f"in {name}, {key}", one, two) for key, one, two in changed]
    for key, one, two in found:
        raise BadRun(
            f"{first.path} and {other.path} cannot be compared: {key} is {one} in one, {two} in "
            "the other. Report each separately"
        )


def compared(folder: SweepFolder, names: Collection[str]) -> dict[str, Any]:
    """What must be equal in two folders whose runs are merged: keys of the sweep file, the axes,
    and the settings of the cells that both have.
    """
    settings = {one["name"]: one["settings"] for one in folder.cells if one["name"] in names}
    keys = {key: folder.file.get(key) or None for key in COMPARED_KEYS}
    return {**keys, "axes": sorted(folder.cells[0]["labels"]), "cells": settings}


def merge(folders: Sequence[SweepFolder]) -> tuple[list[Row], list[str]]:
    """One row per cell and seed, and notes. If several folders have a run, a completed one counts,
    the first folder's first. Paths are relative to the first folder.
    """
    top, found, duplicates = folders[0].path, dict[tuple[str, Any], Row](), 0
    for folder in folders:
        for row in table(folder):
            for key in ("run_folder", "checkpoint_path"):
                if row[key] and folder is not folders[0]:
                    row[key] = os.path.relpath(folder.path / row[key], top)
            run = (row["cell"], row["seed"])
            before = found.get(run, row)["status"]
            duplicates += run in found and before == row["status"] == "completed"
            if run not in found or (before != "completed" and row["status"] == "completed"):
                found[run] = row
    rows = list(found.values())
    if len(folders) > 1:
        order = {cell: index for index, cell in enumerate(dict.fromkeys(cell for cell, _ in found))}
        rows.sort(key=lambda row: (order[row["cell"]], row["seed"] or 0))
    notes = [f"{duplicates} runs are in more than one folder; the first folder's count"]
    return align(rows), notes if duplicates else []


def metrics(file: Mapping[str, Any], rows: Sequence[Row], chosen: str | None) -> Iterator[Metric]:
    """``chosen``, or the sweep file's metrics if it is None.

    Raises:
        UnknownName: no run has a number in this column.
    """
    judged = [file["metric"], *(file.get("also") or [])]
    own = {
        (name := str(one["name"])): Metric(name, one["mode"], one.get("margin")) for one in judged
    }
    if chosen is None:
        yield from own.values()
        return
    columns = rows[0] if rows else ()
    known = [
        key
        for key in columns
        if key not in STATUS_COLUMNS and any(isinstance(row[key], int | float) for row in rows)
    ]
    if chosen not in known:
        raise UnknownName("metric", chosen, known, "the columns of runs.csv")
    lower = chosen.endswith(LOWER_IS_BETTER) and chosen != "train_tokens"
    yield own.get(chosen, Metric(chosen, "min" if lower else "max"))


def title(
    labels: Mapping[str, str],
    axes: Mapping[str, Sequence[str]],
    baseline: Mapping[str, str],
    file: Mapping[str, Any],
) -> str:
    """A short name of a cell: ``rms · rotary``. In a sweep around its baseline it names only what
    differs from the baseline.
    """
    shown = dict(labels)
    if file.get("mode") == "one_at_a_time":
        shown = {axis: label for axis, label in labels.items() if label != baseline[axis]}
    words = []
    for axis, label in shown.items():
        unique = sum(label in others for others in axes.values()) == 1
        is_word = label.lower() not in AMBIGUOUS_LABELS and any(map(str.isalpha, label))
        clear = unique and is_word
        words.append(label if clear else f"{effects.axis_name(axes, axis)} {label}")
    return " · ".join(words) or "baseline"
