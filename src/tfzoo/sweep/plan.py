"""A sweep file: what is varied, how often, and by which number it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Literal

from tfzoo.config.loader import read_yaml
from tfzoo.config.packaged import find
from tfzoo.sweep import check, layout
from tfzoo.sweep.fields import Fields


@dataclass(frozen=True)
class Cell:
    """One combination of what is varied; ``name`` is that of its folder.

    ``recipes`` holds its resolved configuration, by the label of the tuned value (``""`` where
    nothing is tuned).
    """

    labels: dict[str, str]
    settings: dict[str, Any]
    refused: str = ""
    name: str = ""
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Metric:
    """A score, and whether more of it is better."""

    name: str
    mode: Literal["min", "max"]


@dataclass(frozen=True)
class Budget:
    """What each run may use: steps or tokens, the same for all, and a time that none should reach."""

    steps: int | None = None
    tokens: int | None = None
    time: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The keys of the recipe that say it."""
        days = self.time and (
            self.time if self.time.count(":") == 3 else f"00:{self.time}"
        )  # as Lightning has it
        keys = {
            "trainer.max_steps": self.steps,
            "train_tokens": self.tokens,
            "trainer.max_time": days,
        }
        return {key: value for key, value in keys.items() if value is not None}

    @property
    def seconds(self) -> float:
        """Of the time; infinite where there is none."""
        parts = [int(part) for part in (self.time or "").split(":") if part]
        return (
            sum(
                part * unit
                for part, unit in zip(reversed(parts), (1, 60, 3600, 86400), strict=False)
            )
            if parts
            else inf
        )


@dataclass(frozen=True)
class Tune:
    """A key whose best value is found for each cell alone, among ``values`` by label, with a seed
    that nothing is judged by.
    """

    key: str
    values: dict[str, Any]
    seed: int = 0


@dataclass(frozen=True)
class Plan:
    """A sweep file, checked, with all its cells. ``axes`` holds the settings of each label of each
    axis.
    """

    file: Path
    recipe: str
    overrides: dict[str, Any]
    axes: dict[str, dict[str, dict[str, Any]]]
    mode: Literal["grid", "one_at_a_time"]
    baseline: dict[str, str]
    seeds: list[int]
    metric: Metric
    also: list[Metric]
    budget: Budget
    threads: int | None
    devices: int | None
    tune: Tune | None
    claim: str
    cells: list[Cell] = field(default_factory=list)

    def words(self, cell: Cell, tuned: str = "") -> list[str]:
        """What ``tfzoo fit`` is called with for a cell, but for folder and seed."""
        settings = {**self.fixed, **cell.settings}
        if self.tune and tuned:
            settings[self.tune.key] = self.tune.values[tuned]
        ordered = sorted(
            settings, key=lambda key: key.count(".")
        )  # a component before its options, which it would drop
        return [self.recipe, *(f"--{key}={layout.text(settings[key])}" for key in ordered)]

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings that all cells have."""
        devices = {} if self.devices is None else {"trainer.devices": self.devices}
        return {**self.overrides, **self.budget.settings, **devices}

    def tree(self) -> dict[str, Any]:
        """The sweep file with all defaults filled in: a sweep file again."""
        tune = self.tune and {
            "key": self.tune.key,
            "values": list(self.tune.values.values()),
            "seed": self.tune.seed,
        }
        found = {
            "recipe": self.recipe,
            "overrides": self.overrides,
            "axes": self.axes,
            "mode": self.mode,
            "baseline": self.baseline,
            "seeds": self.seeds,
            "metric": vars(self.metric),
            "also": [vars(one) for one in self.also],
            "budget": {key: value for key, value in vars(self.budget).items() if value is not None},
            "threads": self.threads,
            "devices": self.devices,
            "tune": tune,
            "claim": self.claim,
        }
        return {key: value for key, value in found.items() if value not in (None, {}, [], "")}


def load(path: str | Path, number: int | None = None) -> Plan:
    """Read and check a sweep file, given by packaged name or by path: each cell's recipe is parsed
    and its model tried, no data is read.

    Clashes are cells that are ``refused``. With the ``number`` of a run, its cell alone is tried.

    Raises:
        BadRecipe, BadOption, UnknownName: one line that names the file and the mistake.
    """
    file = find(str(path)).resolve()
    plan = draft(file, read_yaml(file))
    tried = range(len(plan.cells)) if number is None else [check.place(plan, number)]
    cells = list(plan.cells)
    for index in tried:
        refused, recipes = check.cell(plan, cells[index])
        cells[index] = replace(cells[index], refused=refused, recipes=recipes)
    plan = replace(plan, cells=cells)
    check.metrics(plan)
    return plan


def draft(file: Path, tree: Mapping[str, Any]) -> Plan:
    """What the file says, its own keys checked, those of the recipe not yet."""
    fields = Fields(file, tree)
    axes = fields.axes()
    seeds = fields.seeds()
    mode: Any = fields.choice("mode", ("grid", "one_at_a_time"))
    baseline = fields.baseline(axes)
    budget = Budget(
        fields.count("budget.steps"), fields.count("budget.tokens"), fields.time("budget.time")
    )
    metrics = [Metric(name, mode) for name, mode in fields.metrics()]
    key, values, seed = fields.tune(seeds)
    plan = Plan(
        file=file,
        recipe=fields.recipe(),
        overrides=fields.settings("overrides"),
        axes=axes,
        mode=mode,
        baseline=baseline,
        seeds=seeds,
        metric=metrics[0],
        also=metrics[1:],
        budget=budget,
        threads=fields.count("threads"),
        devices=fields.count("devices"),
        tune=Tune(key, values, seed) if key else None,
        claim=fields.text("claim"),
    )
    keys = {
        axis: {key for sets in labels.values() for key in layout.keys(sets)}
        for axis, labels in axes.items()
    }
    own = {
        "budget": budget.settings,
        "devices": plan.fixed.keys() - plan.overrides.keys() - budget.settings.keys(),
    }
    fields.once(
        {"overrides": layout.keys(plan.overrides), **own, "tune": [key] if key else [], **keys}
    )
    cells = [
        Cell(labels, layout.settings(axes, labels), name=layout.name(labels))
        for labels in fields.combined(axes, mode, baseline)
    ]
    return replace(plan, cells=cells)
