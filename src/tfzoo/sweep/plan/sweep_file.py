"""A sweep file: what is varied, with which seeds, and by which metric cells are compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Literal, NoReturn

from tfzoo.config.sections import TOP
from tfzoo.errors import BadRecipe, did_you_mean, listing
from tfzoo.sweep.judge.design import parse_margin
from tfzoo.sweep.judge.paired import MAX_SEEDS
from tfzoo.sweep.judge.sequential import FIRST
from tfzoo.sweep.plan import layout

KEYS = (
    "recipe",
    "module",
    "data",
    "overrides",
    "axes",
    "mode",
    "baseline",
    "seeds",
    "looks",
    "metric",
    "also",
    "budget",
    "threads",
    "devices",
    "tune",
    "claim",
)
KEY = re.compile(r"\w+(\.\w+)+")
TIME = re.compile(r"(\d+:)?\d\d:\d\d:\d\d")
MODES = ("grid", "one_at_a_time")
MAX_CELLS = 1000
SEED_LIMIT = 2**32
RESERVED = {*layout.CELL_COLUMNS, *layout.STATUS_COLUMNS, *layout.MEASURED_COLUMNS}
"""Names of columns of ``runs.csv`` that no axis may have."""


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
    claim: str
    looks: list[int] = field(default_factory=list)
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
        found = {key: getattr(self, key) for key in KEYS} | {
            "metric": given(self.metric),
            "also": [given(one) for one in self.also],
            "budget": given(self.budget),
            "tune": self.tune and {**vars(self.tune), "values": [*self.tune.values.values()]},
        }
        return {key: value for key, value in found.items() if value not in (None, {}, [], "")}


def given(section: Metric | Budget) -> dict[str, Any]:
    """A section as a sweep file gives it."""
    return {key: value for key, value in vars(section).items() if value is not None}


def parse(file: Path, tree: Mapping[str, Any]) -> Plan:
    """The plan of a sweep file's contents. Its own keys are checked, the recipe's keys are not."""
    fields = Fields(file, tree)
    axes = fields.axes()
    seeds = fields.seeds()
    mode = fields.mode()
    baseline = fields.baseline(axes)
    budget = Budget(
        fields.count("budget.steps"), fields.count("budget.tokens"), fields.time("budget.time")
    )
    metrics = fields.metrics()
    plan = Plan(
        file=file,
        recipe=fields.recipe(),
        overrides=fields.settings("overrides"),
        axes=axes,
        mode=mode,
        baseline=baseline,
        seeds=seeds,
        looks=fields.looks(seeds),
        metric=metrics[0],
        also=metrics[1:],
        budget=budget,
        threads=fields.count("threads"),
        devices=fields.count("devices"),
        tune=fields.tune(seeds),
        claim=fields.text("claim"),
        module=fields.text("module"),
        data=fields.text("data"),
    )
    fields.check_duplicates(plan)
    cells = [
        Cell(labels, layout.settings(axes, labels), name=layout.name(labels))
        for labels in fields.combinations(axes, mode, baseline)
    ]
    return replace(plan, cells=cells)


class Fields:
    """Reads the keys of a sweep file, one method per key.

    Raises:
        BadRecipe: naming the file and the key.
    """

    def __init__(self, file: Path, tree: Mapping[str, Any]) -> None:
        self.file, self.tree = file, tree
        if isinstance(tree, Mapping) and {"task", "base"} & tree.keys():
            self.refuse(f"a recipe, which a sweep varies, and no sweep: tfzoo fit {self.file}")
        self.mapping("", tree, KEYS)
        if "recipe" in tree and {"module", "data"} & tree.keys():
            self.refuse("a sweep varies a recipe, or a module on data: remove one")
        if not {"recipe", "module"} & tree.keys():
            self.refuse("no recipe; add recipe: translation/numbers")
        budget = self.mapping("budget", tree.get("budget") or {}, ("steps", "tokens", "time"))
        self.tree = {**tree, **{f"budget.{key}": value for key, value in budget.items()}}

    def refuse(self, why: str) -> NoReturn:
        """Raise the error."""
        raise BadRecipe(f"{self.file}: {why}")

    def mapping(self, where: str, tree: Any, keys: Sequence[str]) -> Mapping[str, Any]:
        """Check that ``tree`` is a mapping with no other keys than these; returns it."""
        if not isinstance(tree, Mapping):
            self.refuse(f"{where} is a mapping of {listing(keys)}, not {tree!r}")
        for key in tree:
            if key not in keys:
                close = (
                    f" Keys of the recipe stand under overrides: {{{key}: ...}}"
                    if not where and "." in str(key)
                    else did_you_mean(key, keys)
                )
                self.refuse(
                    f"{where or 'a sweep'} has no key {key!r}.{close} Known: {listing(keys, 20)}"
                )
        return tree

    def recipe(self) -> str:
        """A packaged name, or the absolute path of a file, which is given relative to the sweep
        file or to the working folder.
        """
        given = self.text("recipe")
        for path in (self.file.parent / given, Path(given)):
            if path.is_file():
                return str(path.resolve())
        return given

    def value(self, key: str, is_right: Callable[[Any], bool], words: str) -> Any:
        """The value of a key, None if it is not given; ``words`` say what it must be."""
        found = self.tree.get(key)
        if found is not None and not is_right(found):
            self.refuse(f"{key} is {words}, not {found!r}")
        return found

    def text(self, key: str) -> str:
        """A string; ``""`` if it is not given."""
        return str(self.value(key, lambda found: isinstance(found, str), "a text") or "")

    def mode(self) -> Any:
        """``grid``, unless something else is given."""
        return self.value("mode", MODES.__contains__, " or ".join(MODES)) or MODES[0]

    def count(self, key: str) -> Any:
        """A whole number from 1 on; None if it is not given."""
        words = "a whole number from 1 on"
        return self.value(key, lambda found: type(found) is int and found > 0, words)

    def time(self, key: str) -> Any:
        """A time such as ``00:10:00``; None if it is not given."""
        words = "a time such as 00:10:00 (hours, minutes, seconds)"
        return self.value(key, lambda found: TIME.fullmatch(str(found)) is not None, words)

    def seeds(self) -> list[int]:
        """The seeds, each from 0 to 2^32 - 1 and given once; a number stands for as many, from 1
        on.
        """
        found = self.tree.get("seeds")
        if type(found) is int and 1 <= found <= MAX_SEEDS:
            return [*range(1, found + 1)]
        if (
            not isinstance(found, list)
            or not found
            or any(type(one) is not int or not 0 <= one < SEED_LIMIT for one in found)
        ):
            self.refuse(
                f"seeds is how many, or a list of whole numbers such as [1, 2, 3], not {found!r}"
            )
        if len(set(found)) < len(found) or len(found) > MAX_SEEDS:
            self.refuse(f"seeds: each once, at most {MAX_SEEDS}")
        return found

    def looks(self, seeds: Sequence[int]) -> list[int]:
        """The numbers of seeds at which the sweep is judged; empty: once, with all of them."""
        found = self.tree.get("looks") or []
        if not isinstance(found, list) or any(type(one) is not int for one in found):
            self.refuse(f"looks is a list of numbers of seeds such as [5, 10], not {found!r}")
        if found and not (
            found == sorted({*found}) and found[0] >= FIRST and len(seeds) <= found[-1] <= MAX_SEEDS
        ):
            self.refuse(
                f"looks: numbers of seeds from {FIRST} to {MAX_SEEDS} in rising order, the last no "
                f"less than its {len(seeds)} seeds, not {found}"
            )
        return found

    def metrics(self) -> list[Metric]:
        """``metric``, and each metric under ``also``."""
        if "metric" not in self.tree:
            self.refuse("no metric to judge by; write metric: {name: val/loss, mode: min}")
        also = self.tree.get("also") or []
        if not isinstance(also, list):
            self.refuse(
                f"also is a list of metrics such as [{{name: val/loss, mode: min}}], not {also!r}"
            )
        found = []
        for where, one in [("metric", self.tree["metric"]), *(("also", one) for one in also)]:
            tree = self.mapping(where, one, ("name", "mode", "margin"))
            if not isinstance(tree.get("name"), str) or tree.get("mode") not in ("min", "max"):
                self.refuse(
                    f"{where} needs a name and a mode, min or max: "
                    f"{{name: val/loss, mode: min}}, not {dict(tree)!r}"
                )
            try:
                parse_margin(margin := tree.get("margin"))
            except ValueError as error:
                self.refuse(f"{where}: {tree['name']}: {error}")
            found.append(Metric(tree["name"], tree["mode"], margin))
        if len({metric.name for metric in found}) < len(found):
            self.refuse("metric and also: each name once")
        return found

    def settings(self, where: str, tree: Any = None) -> dict[str, Any]:
        """Values by dotted keys of the recipe."""
        found = self.tree.get(where) or {} if tree is None else tree
        if not isinstance(found, Mapping):
            self.refuse(
                f"{where} is a mapping of the recipe's keys such as {{model.norm: rms}}, "
                f"not {found!r}"
            )
        return {self.key(where, key): value for key, value in found.items()}

    def key(self, where: str, key: Any) -> str:
        """Check that ``key`` can be a key of a recipe; returns it."""
        if key == "seed":
            self.refuse(f"{where}: the seed is set by seeds: [1, 2, 3]")
        if not isinstance(key, str) or not (KEY.fullmatch(key) or key in TOP):
            self.refuse(f"{where}: {key!r} is no dotted key of a recipe, such as model.norm")
        return key

    def axes(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The settings of each label of each axis."""
        found = self.tree.get("axes")
        if not isinstance(found, Mapping) or not found:
            self.refuse(f"axes is a mapping such as {{model.norm: [layer, rms]}}, not {found!r}")
        return {str(axis): self.axis_settings(str(axis), values) for axis, values in found.items()}

    def axis_settings(self, axis: str, values: Any) -> dict[str, dict[str, Any]]:
        """The settings of each label of one axis."""
        where = f"axes: {axis}"
        if axis in RESERVED or "/" in axis:
            self.refuse(f"{where}: this is the name of a column of runs.csv; give the axis another")
        if isinstance(values, Mapping) and values:
            found = {
                layout.label(label): self.settings(f"{where}: {label}", sets or {})
                for label, sets in values.items()
            }
        elif isinstance(values, list) and values and ("." in axis or axis in TOP):
            key = self.key("axes", axis)
            labels = [layout.label(value) for value in values]
            if twice := next((one for one in labels if labels.count(one) > 1), None):
                self.refuse(f"{where}: {twice} is given twice")
            found = {label: {key: value} for label, value in zip(labels, values, strict=True)}
        else:
            self.refuse(
                f"{where} is a list of values of a dotted key, or a mapping "
                f"{{name: {{dotted key: value}}}}, not {values!r}"
            )
        names = [layout.file_name(label).lower() for label in found]
        if len(set(names)) < len(names) or "" in names:
            self.refuse(f"{where}: two of {listing(found)} would have the same folder; rename one")
        return found

    def baseline(self, axes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """The baseline's label on each axis; the first label if none is given."""
        given = self.mapping("baseline", self.tree.get("baseline") or {}, list(axes))
        found = {
            axis: layout.label(given[axis]) if axis in given else next(iter(labels))
            for axis, labels in axes.items()
        }
        for axis, label in found.items():
            if label not in axes[axis]:
                close = did_you_mean(label, axes[axis])
                self.refuse(
                    f"baseline: {axis} has no value {label!r}.{close} Known: {listing(axes[axis])}"
                )
        return found

    def tune(self, seeds: Sequence[int]) -> Tune | None:
        """The tuned key, its values by label, and the seed; None if nothing is tuned."""
        if not self.tree.get("tune"):
            return None
        tree = self.mapping("tune", self.tree["tune"], ("key", "values", "seed"))
        key, values, seed = (
            self.key("tune", tree.get("key")),
            tree.get("values"),
            tree.get("seed", 0),
        )
        if not isinstance(values, list) or len({layout.label(one) for one in values}) < 2:
            self.refuse(f"tune.values is a list of two values or more, not {values!r}")
        if type(seed) is not int or not 0 <= seed < SEED_LIMIT or seed in seeds:
            self.refuse(
                "tune.seed is a whole number that is not among seeds, "
                f"which would bias the comparison: {seed!r}"
            )
        return Tune(key, {layout.label(one): one for one in values}, seed)

    def check_duplicates(self, plan: Plan) -> None:
        """Check that no key of the recipe is set in two sections of the sweep file."""
        sections: dict[str, Iterable[str]] = {
            "overrides": layout.keys(plan.overrides),
            "budget": plan.budget.settings,
            "devices": [] if plan.devices is None else ["trainer.devices"],
            "tune": [plan.tune.key] if plan.tune else [],
        }
        for axis, labels in plan.axes.items():
            sections[axis] = {key for one in labels.values() for key in layout.keys(one)}
        seen: dict[str, str] = {}
        for section, keys in sections.items():
            for key in keys:
                if key in seen:
                    self.refuse(f"{key} is set by {seen[key]} and by {section}; remove one")
                seen[key] = section

    def combinations(
        self, axes: layout.Axes, mode: str, baseline: Mapping[str, str]
    ) -> list[dict[str, str]]:
        """The labels of each cell. Refuses more than 1,000 cells, and two with the same folder."""
        found = list(islice(layout.combine(axes, mode, baseline), MAX_CELLS + 1))
        if len(found) > MAX_CELLS:
            self.refuse(
                f"more than {MAX_CELLS} cells; vary less at once, or set mode: one_at_a_time"
            )
        if len({layout.name(labels).lower() for labels in found}) < len(found):
            self.refuse("two cells would have the same folder; rename axes or values")
        return found
