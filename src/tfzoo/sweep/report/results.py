"""The results of a sweep: its runs, judged, and what a repeat says of the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun, UnknownName
from tfzoo.sweep.judge import effects
from tfzoo.sweep.judge.design import parse_margin
from tfzoo.sweep.judge.repeats import Repeat, repeats
from tfzoo.sweep.judge.scores_by_seed import listed
from tfzoo.sweep.judge.verdicts import Dependence, Judged, Verdicts, interactions, judge
from tfzoo.sweep.plan.layout import STATUS_COLUMNS
from tfzoo.sweep.plan.sweep_file import Metric
from tfzoo.sweep.report import looks
from tfzoo.sweep.run.runs_csv import Row, SweepFolder, table
from tfzoo.sweep.run.state import differences

COMPARED_KEYS = ("recipe", "module", "data", "overrides", "budget", "devices", "tune")
"""Keys of the sweep file that must be equal in a repeat."""
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

    def mean(self, column: str) -> float | None:
        """The mean of a column over the completed runs; None if it has no values."""
        found = [row[column] for row in self.done if isinstance(row.get(column), int | float)]
        return sum(found) / len(found) if found else None


@dataclass(frozen=True)
class Results:
    """The runs of a sweep. ``verdicts`` has one entry per metric, the sweep's own metric first.

    Attributes:
        dependences: the interactions of axes by metric; empty unless the sweep is a grid.
        repeats: what a repeat with other seeds says of the verdicts, by metric; empty without one.
    """

    folder: SweepFolder
    rows: list[Row]
    axes: dict[str, list[str]]
    baseline: dict[str, str]
    verdicts: list[Verdicts]
    dependences: dict[str, list[Dependence]]
    cells: list[CellResult]
    repeats: dict[str, list[Repeat]]

    @property
    def file(self) -> dict[str, Any]:
        """The resolved sweep file."""
        return self.folder.file

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.path.resolve().name

    def axis_name(self, axis: str) -> str:
        """The last part of an axis's key, or the key if another axis ends the same."""
        return effects.axis_name(self.axes, axis)

    def title(self, judged: Judged) -> str:
        """The title of a cell, or the name of an axis and its value."""
        if len(judged.labels) > 1:
            return title(judged.labels, self.axes, self.baseline, self.file)
        ((axis, label),) = judged.labels.items()
        return f"{self.axis_name(axis)} {label}"


def gather(
    given: str | Path, metric: str | None = None, repeated: str | Path | None = None
) -> Results:
    """Read and judge the runs of a folder, by ``metric`` or by the sweep file's metrics; and those
    of a folder in which the sweep was ``repeated`` with other seeds, by themselves.

    Raises:
        BadRun: a folder is not a sweep's, or the second is no repeat of the first.
        UnknownName: no run has this metric.
    """
    folder = SweepFolder.open(given)
    again = None if repeated is None else SweepFolder.open(repeated)
    if again:
        check_repeat(folder, again)
    rows, cells, file = table(folder), folder.cells, folder.file
    axes = {axis: [*{cell["labels"][axis]: None for cell in cells}] for axis in cells[0]["labels"]}
    baseline = dict(zip(axes, effects.baseline(axes, file.get("baseline") or {}), strict=True))
    sample = looks.design(folder)
    verdicts, dependences, repeats_of = [], {}, {}
    for one in metrics(file, rows, metric):
        how = (replace(sample, margin=parse_margin(one.margin)), untrained(folder, one.name))
        found = judge(rows, axes, baseline, one.name, one.mode, *how)
        verdicts.append(found)
        if own := interactions(rows, axes, baseline, one.name, *how):
            dependences[one.name] = own
        if again:
            second = judge(table(again), axes, baseline, one.name, one.mode, *how)
            repeats_of[one.name] = repeats(found, second)
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
    return Results(folder, rows, axes, baseline, verdicts, dependences, results, repeats_of)


def untrained(folder: SweepFolder, metric: str) -> float | None:
    """What a model scores that knows nothing, as the first run knows that does; None if none."""
    score = metric.rpartition("/")[2]
    scores = (one.get("fit", {}).get("untrained", {}).get(score) for one in folder.summaries())
    return next((score for score in scores if score is not None), None)


def check_repeat(first: SweepFolder, again: SweepFolder) -> None:
    """Check that a folder repeats a sweep: with the same cells, and none of its seeds.

    Raises:
        BadRun: naming what differs.
    """
    found = differences(compared(first), compared(again))
    tuned = (first.file.get("tune") or {}).get("key", "")
    for cell in first.cells:
        recipes = [folder.recipe(cell["name"]) for folder in (first, again)]
        if all(recipes):
            changed = differences(recipes[0], recipes[1], "seed", tuned, *PATH_KEYS)
            found += [(f"in {cell['name']}, {key}", one, two) for key, one, two in changed]
    for key, one, two in found:
        raise BadRun(
            f"{again.path} does not repeat {first.path}: {key} is {one} in one, {two} in the "
            "other. Report each separately"
        )
    if both := {*first.seeds} & {*again.seeds}:
        raise BadRun(
            f"{listed(sorted(both))} in both folders: a repeat has other seeds "
            "(tfzoo sweep FILE --seeds 6-10 --run FOLDER)"
        )


def compared(folder: SweepFolder) -> dict[str, Any]:
    """What must be equal in two folders: keys of the sweep file, and the settings of the cells."""
    keys = {key: folder.file.get(key) or None for key in COMPARED_KEYS}
    return {**keys, "cells": {cell["name"]: cell["settings"] or "none" for cell in folder.cells}}


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
