"""The results of a sweep: its runs, judged, what a repeat says of the verdicts, and with which
seeds it was judged before: ``judged.json`` in its folder. Whoever adds seeds after a verdict was
seen stops when the verdict suits, so the sample is then not the planned one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfzoo.base.files import object_of, replace_text
from tfzoo.errors import BadRun, UnknownName
from tfzoo.runs.folder import read_config
from tfzoo.sweep.judge import effects
from tfzoo.sweep.judge.design import Design, parse_margin
from tfzoo.sweep.judge.effects import listed
from tfzoo.sweep.judge.sequential import FIRST
from tfzoo.sweep.judge.verdicts import (
    Dependence,
    Judged,
    Repeat,
    Verdicts,
    interactions,
    judge,
    repeats,
)
from tfzoo.sweep.plan.sweep_file import STATUS_COLUMNS, Metric, Plan
from tfzoo.sweep.run.runs_csv import Row, SweepFolder, table
from tfzoo.sweep.run.state import differences

LOOKS = "judged.json"
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


@dataclass(frozen=True)
class CellResult:
    """A cell with its runs and, for each metric, its comparison."""

    name: str
    title: str
    labels: dict[str, str]
    refused: str
    rows: list[Row]
    judged: list[Judged]

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
    verdicts: list[Verdicts]
    dependences: dict[str, list[Dependence]]
    cells: list[CellResult]
    repeats: dict[str, list[Repeat]]

    @property
    def plan(self) -> Plan:
        """The sweep file."""
        return self.folder.plan

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.path.resolve().name

    def axis_name(self, axis: str) -> str:
        """The last part of an axis's key, or the key if another axis ends the same."""
        return effects.axis_name(self.plan.axes, axis)

    def title(self, judged: Judged) -> str:
        """The name of a cell, or of a value of an axis, which a grid averages over the others."""
        average = self.verdicts[0].is_grid and len(judged.labels) < len(self.plan.axes)
        name = effects.name(self.plan.axes, judged.labels, (*self.plan.baseline.values(),))
        return name + ", on average" * average


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
    rows, plan, sample = table(folder), folder.plan, design(folder.path, folder.plan)
    rows_again = table(again) if again else []
    axes = {axis: [*labels] for axis, labels in plan.axes.items()}
    verdicts, dependences, repeats_of = [], {}, {}
    for one in [column(plan, rows, metric)] if metric else plan.metrics:
        how = (replace(sample, margin=parse_margin(one.margin)), untrained(folder, one.name))
        found = judge(rows, axes, plan.baseline, one.name, one.mode, *how)
        verdicts.append(found)
        if own := interactions(rows, axes, plan.baseline, one.name, *how):
            dependences[one.name] = own
        if again:
            second = judge(rows_again, axes, plan.baseline, one.name, one.mode, *how)
            repeats_of[one.name] = repeats(found, second)
    results = [
        CellResult(
            cell.name,
            effects.name(axes, cell.labels, (*plan.baseline.values(),)),
            cell.labels,
            cell.refused,
            [row for row in rows if row["cell"] == cell.name],
            [next(one for one in by.cells if one.labels == cell.labels) for by in verdicts],
        )
        for cell in plan.cells
    ]
    return Results(folder, rows, verdicts, dependences, results, repeats_of)


def untrained(folder: SweepFolder, metric: str) -> float | None:
    """What a model scores that knows nothing, as the first run knows that does; None if none."""
    score = metric.rpartition("/")[2]
    scores = (one.get("fit", {}).get("untrained", {}).get(score) for one in folder.summaries())
    return next((score for score in scores if score is not None), None)


def check_repeat(first: SweepFolder, again: SweepFolder) -> None:
    """Check that a folder repeats a sweep: with the same cells, and none of its seeds."""
    ours, theirs = recipes(first), recipes(again)
    says = {True: "there", False: "missing"}
    found: list[tuple[str, Any, Any]] = [
        (f"cell {name}", says[name in ours], says[name in theirs])
        for name in sorted(ours.keys() ^ theirs.keys())
    ]
    tunes = [
        one.plan.tune and f"{one.plan.tune.key} among {[*one.plan.tune.values.values()]}"
        for one in (first, again)
    ]
    if tunes[0] != tunes[1]:
        found.append(("tune", tunes[0], tunes[1]))
    tuned = first.plan.tune.key if first.plan.tune else ""
    for name in ours.keys() & theirs.keys():
        if ours[name] and theirs[name]:
            changed = differences(ours[name], theirs[name], "seed", tuned, *PATH_KEYS)
            found += [(f"in {name}, {key}", one, two) for key, one, two in changed]
    for key, one, two in found:
        raise BadRun(
            f"{again.path} does not repeat {first.path}: {key} is {one} in one, {two} in the "
            "other. Report each separately"
        )
    if both := {*first.plan.seeds} & {*again.plan.seeds}:
        raise BadRun(
            f"{listed(sorted(both))} in both folders: a repeat has other seeds "
            "(tfzoo sweep FILE --seeds 6-10 --run FOLDER)"
        )


def recipes(folder: SweepFolder) -> dict[str, dict[str, Any]]:
    """The configuration of each cell's runs; empty for one of which no run has begun."""
    found: dict[str, dict[str, Any]] = {cell.name: {} for cell in folder.plan.cells}
    for run in folder.runs:
        found[run.cell.name] = found[run.cell.name] or read_config(run.folder)
    return found


def column(plan: Plan, rows: Sequence[Row], name: str) -> Metric:
    """The metric in a column of ``runs.csv``, as the sweep file declares it if it does."""
    known = [
        key
        for key in rows[0]
        if key not in STATUS_COLUMNS and any(isinstance(row[key], int | float) for row in rows)
    ]
    if name not in known:
        raise UnknownName("metric", name, known, "the columns of runs.csv")
    lower = name.endswith(LOWER_IS_BETTER) and name != "train_tokens"
    own = {metric.name: metric for metric in plan.metrics}
    return own.get(name, Metric(name, "min" if lower else "max"))


def design(folder: Path, plan: Plan) -> Design:
    """At how many seeds the runs of a folder may be judged, and with how many they were judged
    before, unless the sweep had declared the same looks already then. A look with too few seeds for
    a verdict does not count at the first number that has one.
    """
    looks, seeds = tuple(plan.looks), sorted(plan.seeds)
    fewest = FIRST if len(seeds) == FIRST else 1
    earlier = {
        len(look["seeds"])
        for look in object_of(folder / LOOKS).get("looks", [])
        if look["seeds"] != seeds
        and len(look["seeds"]) >= fewest
        and (not looks or look.get("looks") != [*looks])
    }
    return Design(looks=() if earlier else looks, earlier=tuple(sorted(earlier)))


def record_look(folder: SweepFolder) -> None:
    """Record that somebody has seen the verdicts of a folder."""
    look = {"seeds": sorted(folder.plan.seeds), "looks": folder.plan.looks}
    before = object_of(folder.path / LOOKS).get("looks", [])
    if look not in before:
        replace_text(folder.path / LOOKS, json.dumps({"looks": [*before, look]}) + "\n")
