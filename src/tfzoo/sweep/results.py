"""What a report is made of: the folders of a sweep, put together and judged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun, UnknownName
from tfzoo.sweep import effects, state
from tfzoo.sweep.bootstrap import Bootstrap, bootstrap
from tfzoo.sweep.judge import Judged, Mode, Verdicts, judge
from tfzoo.sweep.layout import MEASURED
from tfzoo.sweep.runs import Folder, Row, even, table

SAME = ("recipe", "overrides", "budget", "devices", "tune")
"""What two folders must agree in, or their runs cannot be compared."""
ELSEWHERE = ("data.root", "data.train", "data.val")
"""What another machine may have at another place."""
SMALL = ("loss", "perplexity", "error", "seconds", "memory", "parameters", "tokens", "entropy")
"""A metric whose name ends like this is better when small; a sweep file says it for its own."""
VAGUE = ("none", "null", "true", "false")


@dataclass(frozen=True)
class Cell:
    """A cell with its runs and, for each metric, what was judged of it (None: nothing was run)."""

    name: str
    title: str
    labels: dict[str, str]
    settings: dict[str, Any]
    refused: str
    rows: list[Row]
    judged: list[Judged | None]

    @property
    def done(self) -> list[Row]:
        """The runs that completed."""
        return [row for row in self.rows if row["status"] == "completed"]

    @property
    def status(self) -> str:
        """Of all its runs together."""
        if self.refused:
            return "refused"
        if len(self.done) == len(self.rows):
            return "completed"
        return "failed" if any(row["status"] == "failed" for row in self.rows) else "missing"

    def mean(self, column: str) -> float | None:
        """Over the runs that completed."""
        found = [row[column] for row in self.done if isinstance(row.get(column), int | float)]
        return sum(found) / len(found) if found else None


@dataclass(frozen=True)
class Results:
    """All runs of one or more folders of the same sweep. ``verdicts`` has one entry a metric, the
    sweep's own first.
    """

    folders: list[Folder]
    rows: list[Row]
    axes: dict[str, list[str]]
    baseline: dict[str, str]
    verdicts: list[Verdicts]
    cells: list[Cell]
    translations: Bootstrap
    notes: list[str]

    @property
    def file(self) -> dict[str, Any]:
        """The sweep file, with all defaults."""
        return self.folders[0].file

    @property
    def name(self) -> str:
        return self.folders[0].path.resolve().name

    def short(self, axis: str) -> str:
        """The last part of an axis' key, where no other axis ends alike."""
        return effects.short(self.axes, axis)

    def told(self, judged: Judged) -> str:
        """The title of a cell, or an axis and its value."""
        return (
            title(judged.labels, self.axes, self.baseline, self.file)
            if len(judged.labels) > 1
            else self.told_value(judged)
        )

    def told_value(self, judged: Judged) -> str:
        """An axis and its value."""
        ((axis, label),) = judged.labels.items()
        return f"{self.short(axis)} {label}"


def gather(given: Sequence[str | Path], metric: str | None = None) -> Results:
    """Read, merge and judge; ``metric`` instead of those that the sweep file names.

    Raises:
        BadRun: a folder is no sweep's, or of another sweep than the first.
        UnknownName: no run has this metric.
    """
    folders = [Folder.open(path) for path in given]
    for other in folders[1:]:
        agree(folders[0], other)
    rows, notes = merge(folders)
    cells = list(
        {
            cell["name"]: cell for folder in reversed(folders) for cell in reversed(folder.cells)
        }.values()
    )[::-1]
    axes: dict[str, list[str]] = {}
    for cell in cells:
        for axis, label in cell["labels"].items():
            axes.setdefault(axis, []).extend([label] if label not in axes.get(axis, []) else [])
    file = folders[0].file
    baseline = dict(zip(axes, effects.baseline(axes, file.get("baseline") or {}), strict=True))
    verdicts = [
        judge(rows, axes, baseline, name, mode) for name, mode in metrics(file, rows, metric)
    ]
    made = [
        Cell(
            cell["name"],
            title(cell["labels"], axes, baseline, file),
            cell["labels"],
            cell["settings"],
            cell["refused"],
            [row for row in rows if row["cell"] == cell["name"]],
            [
                next((one for one in found.cells if one.labels == cell["labels"]), None)
                for found in verdicts
            ],
        )
        for cell in cells
    ]
    here = [
        {**row, "run_folder": row["run_folder"] and str(folders[0].path / row["run_folder"])}
        for row in rows
    ]
    return Results(
        folders, rows, axes, baseline, verdicts, made, bootstrap(here, axes, baseline), notes
    )


def agree(first: Folder, other: Folder) -> None:
    """See that two folders hold runs that can be compared.

    Raises:
        BadRun: naming what differs.
    """
    for key in SAME:
        if (first.file.get(key) or None) != (other.file.get(key) or None):
            said = f"{key} is {first.file.get(key)} in one, {other.file.get(key)} in the other"
            raise BadRun(
                f"{first.path} and {other.path} cannot be compared: {said}. Report each alone"
            )
    axes = [{axis for cell in folder.cells for axis in cell["labels"]} for folder in (first, other)]
    if axes[0] != axes[1]:
        raise BadRun(
            f"{first.path} varies {', '.join(sorted(axes[0]))}; {other.path}, {', '.join(sorted(axes[1]))}. Report each alone"
        )
    settings = {cell["name"]: cell["settings"] for cell in first.cells}
    tuned = (first.file.get("tune") or {}).get("key", "")
    for cell in other.cells:
        if settings.get(cell["name"], cell["settings"]) != cell["settings"]:
            raise BadRun(
                f"cell {cell['name']} is not the same in {first.path} and {other.path}. Report each alone"
            )
        one, two = (folder.recipe(cell["name"]) for folder in (first, other))
        for key, *values in (
            state.differences(one, two, "seed", tuned, *ELSEWHERE) if one and two else ()
        ):
            said = f"{key} is {values[0]} in one, {values[1]} in the other"
            raise BadRun(
                f"{first.path} and {other.path} cannot be compared: in {cell['name']}, {said}. Report each alone"
            )


def merge(folders: Sequence[Folder]) -> tuple[list[Row], list[str]]:
    """All rows, one a cell and seed: of two, the completed one, else the first folder's. Paths are
    from the first folder.
    """
    top, found, twice = folders[0].path, dict[tuple[str, Any], Row](), 0
    for folder in folders:
        for row in table(folder):
            for key in ("run_folder", "checkpoint_path"):
                if row[key] and folder is not folders[0]:
                    row[key] = os.path.relpath(folder.path / row[key], top)
            run = (row["cell"], row["seed"])
            twice += run in found and found[run]["status"] == row["status"] == "completed"
            if run not in found or (
                found[run]["status"] != "completed" and row["status"] == "completed"
            ):
                found[run] = row
    order = {name: place for place, name in enumerate(dict.fromkeys(name for name, _ in found))}
    rows = sorted(
        found.values(),
        key=lambda row: (order[row["cell"]], row["seed"] or 0) if len(folders) > 1 else (0, 0),
    )
    return even(rows), [
        f"{twice} runs are in more than one folder; the first folder's count"
    ] if twice else []


def metrics(
    file: Mapping[str, Any], rows: Sequence[Row], asked: str | None
) -> Iterator[tuple[str, Mode]]:
    """By what is judged: name and direction."""
    own = [file["metric"], *(file.get("also") or [])]
    if asked is None:
        yield from ((str(one["name"]), one["mode"]) for one in own)
        return
    numbers = (
        [key for key in rows[0] if any(isinstance(row[key], int | float) for row in rows)]
        if rows
        else []
    )
    known = [key for key in numbers if "/" in key or key in MEASURED]
    if asked not in known:
        raise UnknownName("metric", asked, known, "the columns of runs.csv")
    said = {str(one["name"]): one["mode"] for one in own}
    yield (
        asked,
        said.get(asked, "min" if asked.endswith(SMALL) and asked != "train_tokens" else "max"),
    )


def title(
    labels: Mapping[str, str],
    axes: Mapping[str, Sequence[str]],
    baseline: Mapping[str, str],
    file: Mapping[str, Any],
) -> str:
    """A cell in few words: ``rms · rotary``, or what it has other than the baseline."""
    shown = dict(labels)
    if file.get("mode") == "one_at_a_time":
        shown = {axis: label for axis, label in labels.items() if label != baseline[axis]}
    words = []
    for axis, label in shown.items():
        alone = sum(label in others for others in axes.values()) == 1
        clear = alone and label.lower() not in VAGUE and any(letter.isalpha() for letter in label)
        words.append(label if clear else f"{effects.short(axes, axis)} {label}")
    return " · ".join(words) or "baseline"
