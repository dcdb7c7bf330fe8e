"""The results of a sweep: the runs of one or more folders, merged and judged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun, UnknownName
from tfzoo.runs.folder import set_values
from tfzoo.sweep.judge import effects
from tfzoo.sweep.judge.design import parse_margin
from tfzoo.sweep.judge.repeats import Repeats, repeats
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
    settings: dict[str, Any]
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
    judged_rows: list[Row]
    """Those that the verdicts are of: of the first folder alone, if the others are its repeat."""
    axes: dict[str, list[str]]
    baseline: dict[str, str]
    verdicts: list[Verdicts]
    cells: list[CellResult]
    notes: list[str]
    repeats: list[Repeats]
    """One per metric if the other folders have other seeds than the first, else none."""

    @property
    def file(self) -> dict[str, Any]:
        """The resolved sweep file."""
        return self.folders[0].file

    @property
    def name(self) -> str:
        """The name of the first folder."""
        return self.folders[0].path.resolve().name

    @cached_property
    def dependences(self) -> dict[str, list[Dependence]]:
        """The interactions of axes by metric; empty unless the sweep is a grid."""
        found = {
            one.metric: interactions(
                self.judged_rows,
                self.axes,
                self.baseline,
                one.metric,
                one.design,
                untrained(self.folders, one.metric),
            )
            for one in self.verdicts
        }
        return {metric: own for metric, own in found.items() if own}

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
    cells = cells_of(folders)
    axes = axes_of(cells)
    file = folders[0].file
    baseline = dict(zip(axes, effects.baseline(axes, file.get("baseline") or {}), strict=True))
    first, again = halves(folders, rows)
    judged_rows = first if again else rows
    sample = looks.design(folders[:1] if again else folders)
    judged = partial(judge, judged_rows, axes, baseline)
    verdicts = [
        judged(
            one.name,
            one.mode,
            replace(sample, margin=parse_margin(one.margin)),
            untrained(folders, one.name),
        )
        for one in metrics(file, rows, metric)
    ]
    if again:
        notes.append(
            f"verdicts are those of {folders[0].path.resolve().name}; what the others say of them "
            "stands under their repeat"
        )
    made = [
        cell_result(cell, title(cell["labels"], axes, baseline, file), rows, verdicts)
        for cell in cells
    ]
    repeated = verdicts if again else []
    return Results(
        folders,
        rows,
        judged_rows,
        axes,
        baseline,
        verdicts,
        made,
        notes,
        [
            repeats(
                *(first, again, axes, baseline, one.metric, one.mode, one.design),
                untrained(folders, one.metric),
            )
            for one in repeated
        ],
    )


def untrained(folders: Sequence[SweepFolder], metric: str) -> float | None:
    """What a model scores that knows nothing, as the first run knows that does; None if none."""
    scores = (
        one.get("fit", {}).get("untrained", {}).get(metric.rpartition("/")[2])
        for folder in folders
        for one in folder.summaries()
    )
    return next((score for score in scores if score is not None), None)


def cells_of(folders: Sequence[SweepFolder]) -> list[dict[str, Any]]:
    """The cells of all folders, each once, in their order; the first folder's count."""
    found = {cell["name"]: cell for folder in folders[::-1] for cell in folder.cells[::-1]}
    return list(found.values())[::-1]


def axes_of(cells: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The labels of each axis, in the order of the cells."""
    axes: dict[str, dict[str, None]] = {}
    for cell in cells:
        for axis, label in cell["labels"].items():
            axes.setdefault(axis, {})[label] = None
    return {axis: [*labels] for axis, labels in axes.items()}


def cell_result(
    cell: Mapping[str, Any], title: str, rows: Sequence[Row], verdicts: Sequence[Verdicts]
) -> CellResult:
    """A cell of ``cells.json`` with its rows, and its comparison by each metric."""
    return CellResult(
        cell["name"],
        title,
        cell["labels"],
        cell["settings"],
        cell["refused"],
        [row for row in rows if row["cell"] == cell["name"]],
        [
            next((one for one in found.cells if one.labels == cell["labels"]), None)
            for found in verdicts
        ],
    )


def halves(folders: Sequence[SweepFolder], rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of the first folder and of the others, if those repeat it: with the same cells and
    no seed of it. Refused cells are in both.
    """
    first, *others = ({cell["name"] for cell in folder.cells} for folder in folders)
    seeds = {*folders[0].seeds}
    shared = any(seeds & {*folder.seeds} for folder in folders[1:])
    if not others or shared or any(cells != first for cells in others):
        return [], []
    return (
        [row for row in rows if row["seed"] is None or row["seed"] in seeds],
        [row for row in rows if row["seed"] is None or row["seed"] not in seeds],
    )


def check_comparable(first: SweepFolder, other: SweepFolder) -> None:
    """Check that the runs of two folders can be compared.

    Raises:
        BadRun: naming what differs.
    """
    for key in COMPARED_KEYS:
        if (first.file.get(key) or None) != (other.file.get(key) or None):
            raise not_comparable(first, other, mismatch(key, first.file, other.file))
    axes = [{axis for cell in folder.cells for axis in cell["labels"]} for folder in (first, other)]
    if axes[0] != axes[1]:
        one, two = (", ".join(sorted(names)) for names in axes)
        raise not_comparable(first, other, f"one varies {one}, the other {two}")
    settings = {cell["name"]: cell["settings"] for cell in first.cells}
    tuned = (first.file.get("tune") or {}).get("key", "")
    for cell in other.cells:
        if settings.get(cell["name"], cell["settings"]) != cell["settings"]:
            raise not_comparable(first, other, f"cell {cell['name']} has other settings")
        recipes = [folder.recipe(cell["name"]) for folder in (first, other)]
        if all(recipes):
            found = differences(recipes[0], recipes[1], "seed", tuned, *PATH_KEYS)
            for key, one, two in found[:1]:
                why = f"in {cell['name']}, {key} is {one} in one, {two} in the other"
                raise not_comparable(first, other, why)


def mismatch(key: str, first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """``budget.steps is 300 in one, 400 in the other``: the first leaf under a key that differs."""
    one, two = (set_values({key: file[key]} if file.get(key) else {}) for file in (first, other))
    name = next(name for name in {**one, **two} if one.get(name) != two.get(name))
    shown = [str(leaves[name]) if name in leaves else "not set" for leaves in (one, two)]
    return f"{name} is {shown[0]} in one, {shown[1]} in the other"


def not_comparable(first: SweepFolder, other: SweepFolder, why: str) -> BadRun:
    """The error for two folders whose runs must not be merged."""
    return BadRun(
        f"{first.path} and {other.path} cannot be compared: {why}. Report each separately"
    )


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
