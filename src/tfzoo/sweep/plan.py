"""A sweep file: what is varied, with which seeds, and by which metric cells are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf
from pathlib import Path
from typing import Any, Literal

from tfzoo.sweep import layout
from tfzoo.sweep.fields import Fields


@dataclass(frozen=True)
class Cell:
    """One combination of the values that are varied.

    Attributes:
        labels: the label of its value on each axis.
        settings: the recipe's keys that the labels stand for.
        refused: why it cannot be trained; ``""`` if it can.
        name: the name of its folder.
        recipes: its resolved configuration by the label of the tuned value (``""`` if nothing is
            tuned).
    """

    labels: dict[str, str]
    settings: dict[str, Any]
    refused: str = ""
    name: str = ""
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Metric:
    """A score, whether lower or higher is better, and the margin within which a difference does not
    matter: a number of points, a share such as ``1 %``, or None.
    """

    name: str
    mode: Literal["min", "max"]
    margin: float | str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As a sweep file gives it."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Budget:
    """The limit of each run: steps or tokens, equal for all cells, and a time none should reach."""

    steps: int | None = None
    tokens: int | None = None
    time: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The recipe's keys that set it. Lightning's times begin with days."""
        time = f"00:{self.time}" if self.time and self.time.count(":") == 2 else self.time
        keys = {
            "trainer.max_steps": self.steps,
            "train_tokens": self.tokens,
            "trainer.max_time": time,
        }
        return {key: value for key, value in keys.items() if value is not None}

    @property
    def seconds(self) -> float:
        """The time limit; infinite if there is none."""
        if not self.time:
            return inf
        parts = [int(part) for part in self.time.split(":")]
        units = zip(reversed(parts), (1, 60, 3600, 86400), strict=False)
        return sum(part * unit for part, unit in units)


@dataclass(frozen=True)
class Tune:
    """A key whose best value is chosen for each cell separately, among ``values`` by label, with a
    seed that is not among the sweep's.
    """

    key: str
    values: dict[str, Any]
    seed: int = 0


@dataclass(frozen=True)
class Prune:
    """Successive halving: after ``after`` steps, or that share of them, the best cells go on.
    ``keep`` is their share, and the next rung is ``1 / keep`` times as far; or their number, and
    there is one rung.
    """

    after: int | float
    keep: int | float

    def rungs(self, steps: int) -> list[int]:
        """The steps after which cells are pruned, of runs of ``steps`` steps."""
        rung = self.after if isinstance(self.after, int) else ceil(round(self.after * steps, 6))
        found = []
        while rung < steps:
            found.append(rung)
            rung = steps if isinstance(self.keep, int) else ceil(round(rung / self.keep, 6))
        return found

    def kept(self, cells: int) -> int:
        """How many of so many cells are kept."""
        if isinstance(self.keep, int):
            return min(self.keep, cells)
        return ceil(round(self.keep * cells, 6))


@dataclass(frozen=True)
class Plan:
    """A checked sweep file with all its cells. ``axes`` maps axis and label to settings.

    It varies a ``recipe``, or a ``module`` (a LightningModule, ``package.module:Class``) on
    ``data``. The code of a module runs only with ``trust``, which each start gives anew:
    :meth:`to_dict` does not store it.
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
    prune: Prune | None
    claim: str
    max_seeds: int | None = None
    cells: list[Cell] = field(default_factory=list)
    module: str = ""
    data: str = ""
    trust: bool = False

    def fit_arguments(self, cell: Cell, tuned: str = "") -> list[str]:
        """The arguments of ``tfzoo fit`` for a cell, without folder and seed."""
        settings = self.settings_of(cell, tuned)
        # A component comes before its options: naming it later would drop them.
        ordered = sorted(settings, key=lambda key: key.count("."))
        return [self.recipe, *(f"--{key}={layout.text(settings[key])}" for key in ordered)]

    def settings_of(self, cell: Cell, tuned: str = "") -> dict[str, Any]:
        """The settings of a cell, those that all cells share included."""
        tune = {self.tune.key: self.tune.values[tuned]} if self.tune and tuned else {}
        return {**self.common_settings, **cell.settings, **tune}

    @property
    def common_settings(self) -> dict[str, Any]:
        """The settings that all cells share."""
        devices = {} if self.devices is None else {"trainer.devices": self.devices}
        return {**self.overrides, **self.budget.settings, **devices}

    def to_dict(self) -> dict[str, Any]:
        """The sweep file with all defaults filled in, which is a valid sweep file."""
        tune = self.tune and {
            "key": self.tune.key,
            "values": list(self.tune.values.values()),
            "seed": self.tune.seed,
        }
        found = {
            "recipe": self.recipe,
            "module": self.module,
            "data": self.data,
            "overrides": self.overrides,
            "axes": self.axes,
            "mode": self.mode,
            "baseline": self.baseline,
            "seeds": self.seeds,
            "max_seeds": self.max_seeds,
            "metric": self.metric.to_dict(),
            "also": [one.to_dict() for one in self.also],
            "budget": {key: value for key, value in vars(self.budget).items() if value is not None},
            "threads": self.threads,
            "devices": self.devices,
            "tune": tune,
            "prune": self.prune and vars(self.prune),
            "claim": self.claim,
        }
        return {key: value for key, value in found.items() if value not in (None, {}, [], "")}


def parse(file: Path, tree: Mapping[str, Any]) -> Plan:
    """The plan of a sweep file's contents. Its own keys are checked, the recipe's keys are not."""
    fields = Fields(file, tree)
    axes = fields.axes()
    seeds = fields.seeds()
    mode: Any = fields.choice("mode", ("grid", "one_at_a_time"))
    baseline = fields.baseline(axes)
    budget = Budget(
        fields.count("budget.steps"), fields.count("budget.tokens"), fields.time("budget.time")
    )
    metrics = [Metric(*one) for one in fields.metrics()]
    key, values, seed = fields.tune(seeds)
    after, keep = fields.prune()
    plan = Plan(
        file=file,
        recipe=fields.recipe(),
        overrides=fields.settings("overrides"),
        axes=axes,
        mode=mode,
        baseline=baseline,
        seeds=seeds,
        max_seeds=fields.max_seeds(seeds),
        metric=metrics[0],
        also=metrics[1:],
        budget=budget,
        threads=fields.count("threads"),
        devices=fields.count("devices"),
        tune=Tune(key, values, seed) if key else None,
        prune=Prune(after, keep) if after else None,
        claim=fields.text("claim"),
        module=fields.text("module"),
        data=fields.text("data"),
    )
    check_duplicates(plan, fields)
    cells = [
        Cell(labels, layout.settings(axes, labels), name=layout.name(labels))
        for labels in fields.combinations(axes, mode, baseline)
    ]
    return replace(plan, cells=cells)


def check_duplicates(plan: Plan, fields: Fields) -> None:
    """Check that no key of the recipe is set in two sections of the sweep file."""
    sections = {
        "overrides": layout.keys(plan.overrides),
        "budget": plan.budget.settings,
        "devices": [] if plan.devices is None else ["trainer.devices"],
        "tune": [plan.tune.key] if plan.tune else [],
    }
    axes = {
        axis: {key for settings in labels.values() for key in layout.keys(settings)}
        for axis, labels in plan.axes.items()
    }
    fields.check_duplicates({**sections, **axes})
