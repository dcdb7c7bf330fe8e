"""A sweep file: what is varied, with which seeds, and by which metric cells are compared; its cells
with the names of their folders, and the fixed columns of ``runs.csv``.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from itertools import islice, product
from math import inf
from pathlib import Path
from typing import Any, Literal, get_type_hints

from tfzoo.base.values import check_range, convert
from tfzoo.config.recipe import TOP
from tfzoo.errors import BadRecipe, UnknownName, listing, within
from tfzoo.sweep.judge import effects
from tfzoo.sweep.judge.design import parse_margin
from tfzoo.sweep.judge.paired import MAX_SEEDS
from tfzoo.sweep.judge.sequential import FIRST

KEY = re.compile(r"\w+(\.\w+)+")
TIME = re.compile(r"(\d+:)?\d\d:\d\d:\d\d")
MAX_CELLS = 1000
SEED_LIMIT = 2**32
MAX_NAME_BYTES = 120
"""Of a folder's name; file systems allow 255."""

STATUS_COLUMNS = ("seed", "tuned", "status", "reason")
MEASURED_COLUMNS = (
    *("parameters", "train_tokens", "steps", "tokens_per_second", "train_seconds", "peak_memory"),
    *("checkpoint_path", "run_folder", "hostname"),
)
"""The columns of ``runs.csv`` between axes and scores, and after the scores."""
RESERVED = {"cell", *STATUS_COLUMNS, *MEASURED_COLUMNS}
"""Names of columns of ``runs.csv`` that no axis may have."""

Axes = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""The settings of each label of each axis."""


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

    def __post_init__(self) -> None:
        parse_margin(self.margin)


@dataclass(frozen=True)
class Budget:
    """The limit of each run: steps or tokens, equal for all cells, and a time none should reach."""

    steps: int | None = None
    tokens: int | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_count("tokens", self.tokens)
        if self.time and not TIME.fullmatch(self.time):
            raise BadRecipe(
                f"time is hours, minutes and seconds such as '00:10:00', not {self.time!r}"
            )

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
        return float(convert(self.time, timedelta).total_seconds()) if self.time else inf


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
    """A checked sweep file: its keys, then what is not in it, with all its cells. ``axes`` maps
    axis and label to settings.

    It varies a ``recipe``, or a ``module`` (a LightningModule, ``package.module:Class``) on
    ``data``. The code of a module runs only with ``trust``, which each start gives anew:
    :meth:`to_dict` does not store it.
    """

    axes: dict[str, dict[str, dict[str, Any]]]
    seeds: list[int]
    metric: Metric
    recipe: str = ""
    module: str = ""
    data: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    mode: Literal["grid", "one_at_a_time"] = "grid"
    baseline: dict[str, Any] = field(default_factory=dict)
    looks: list[int] = field(default_factory=list)
    also: list[Metric] = field(default_factory=list)
    budget: Budget = field(default_factory=Budget)
    threads: int | None = None
    devices: int | None = None
    tune: Tune | None = None
    claim: str = ""
    file: Path = Path()
    cells: list[Cell] = field(default_factory=list)
    trust: bool = False

    def fit_arguments(self, cell: Cell, tuned: str = "") -> list[str]:
        """The arguments of ``tfzoo fit`` for a cell, without folder and seed."""
        settings = self.settings_of(cell, tuned)
        # A component comes before its options: naming it later would drop them.
        ordered = sorted(settings, key=lambda key: key.count("."))
        return [self.recipe, *(f"--{key}={text(settings[key])}" for key in ordered)]

    def settings_of(self, cell: Cell, tuned: str = "") -> dict[str, Any]:
        """The settings of a cell, those that all cells share included."""
        tune = {self.tune.key: self.tune.values[tuned]} if self.tune and tuned else {}
        return {**self.overrides, **self.limits, **cell.settings, **tune}

    @property
    def limits(self) -> dict[str, Any]:
        """The recipe's keys that ``budget`` and ``devices`` set."""
        devices = {} if self.devices is None else {"trainer.devices": self.devices}
        return {**self.budget.settings, **devices}

    @property
    def metrics(self) -> list[Metric]:
        """All metrics, the first of which is the sweep's own."""
        return [self.metric, *self.also]

    def to_dict(self) -> dict[str, Any]:
        """The sweep file with all defaults filled in, which is a valid sweep file."""
        found = asdict(replace(self, cells=[]), dict_factory=given)
        if self.tune:
            found["tune"]["values"] = [*self.tune.values.values()]
        return found


OWN = ("file", "cells", "trust")
"""The fields of a plan that are no keys of its file."""


def given(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A section as a sweep file gives it."""
    nothing: list[Any] = [None, {}, [], ""]
    return {key: value for key, value in pairs if value not in nothing and key not in OWN}


def parse(file: Path, tree: Mapping[str, Any]) -> Plan:
    """The plan of a sweep file's contents. Its own keys are checked, the recipe's keys are not.

    Raises:
        BadRecipe, BadOption, UnknownName: naming the file and the key.
    """
    with within(str(file)):
        if {"task", "base"} & tree.keys():
            raise BadRecipe(f"a recipe, which a sweep varies, and no sweep: tfzoo fit {file}")
        sections = {key: SECTIONS[key](tree[key]) for key in SECTIONS if tree.get(key) is not None}
        plan: Plan = read(Plan, {**tree, **sections}, "a sweep")
        check_values(plan)
        check_keys(plan)
        paths = (file.parent / plan.recipe, Path(plan.recipe))  # else it is a packaged name
        recipe = next((str(path.resolve()) for path in paths if path.is_file()), plan.recipe)
        plan = replace(plan, file=file, recipe=recipe, baseline=baseline(plan))
        return replace(plan, cells=cells(plan))


def read(cls: Any, tree: Any, where: str) -> Any:
    """An object of a dataclass whose fields are the keys of a mapping, with each value converted to
    the type of its field. None counts as not given.
    """
    hints = {key: hint for key, hint in get_type_hints(cls).items() if key not in OWN}
    if not isinstance(tree, Mapping):
        raise BadRecipe(f"{where} is a mapping of {listing(hints)}, not {tree!r}")
    values = {}
    for key, value in tree.items():
        if key not in hints:
            raise UnknownName(f"key of {where}", str(key), hints, "a recipe's key: in overrides")
        if value is not None:
            try:
                values[key] = convert(value, hints[key])
            except ValueError as error:
                raise BadRecipe(f"{where}: {key} {error}") from None
    for one in fields(cls):
        if one.default is one.default_factory is MISSING and one.name not in values:
            raise BadRecipe(f"{where} needs {one.name} (tfzoo sweep --help has an example)")
    with within(where):
        return cls(**values)


def read_axes(tree: Any) -> dict[str, Any]:
    """The axes, as of :class:`Plan`."""
    if not isinstance(tree, Mapping) or not tree:
        raise BadRecipe(f"axes is a mapping such as {{model.norm: [layer, rms]}}, not {tree!r}")
    axes = {}
    for axis, values in tree.items():
        if axis in RESERVED or "/" in str(axis):
            raise BadRecipe(f"axes: {axis} is the name of a column of runs.csv; choose another")
        pairs = []
        if isinstance(values, list):
            pairs = [(label(value), {axis: value}) for value in values]
        elif isinstance(values, Mapping):
            pairs = [(label(name), sets or {}) for name, sets in values.items()]
        folders = {file_name(name).lower() for name, _ in pairs} - {""}
        if not pairs or len(folders) < len(pairs):
            raise BadRecipe(
                f"axes: {axis} is a list of values of a dotted key, or a mapping {{name: {{dotted "
                f"key: value}}}}, no two of which would have the same folder, not {values!r}"
            )
        axes[str(axis)] = dict(pairs)
    return axes


def read_seeds(seeds: Any) -> Any:
    """The seeds; a number stands for as many, from 1 on."""
    return [*range(1, min(seeds, MAX_SEEDS + 1) + 1)] if type(seeds) is int else seeds


def read_also(metrics: Any) -> list[Metric]:
    """One further metric or several."""
    return [
        read(Metric, one, "also") for one in (metrics if isinstance(metrics, list) else [metrics])
    ]


def read_tune(tree: Any) -> Any:
    """What is tuned, its values by label."""
    if isinstance(tree, Mapping) and isinstance(values := tree.get("values"), list):
        tree = {**tree, "values": {label(value): value for value in values}}
    return read(Tune, tree, "tune")


SECTIONS: dict[str, Callable[[Any], Any]] = {
    "axes": read_axes,
    "seeds": read_seeds,
    "metric": partial(read, Metric, where="metric"),
    "also": read_also,
    "budget": partial(read, Budget, where="budget"),
    "tune": read_tune,
}
"""Readers of the keys that hold more than a value."""


def check_count(key: str, value: int | None) -> None:
    """Check that a value is a number from 1 on, or not given."""
    check_range(key, value, ge=1, whole=True, optional=True)


def check_values(plan: Plan) -> None:
    """Check ranges, and what does not go together."""
    if plan.recipe and (plan.module or plan.data):
        raise BadRecipe("a sweep varies a recipe, or a module on data: remove one")
    if not plan.recipe and not plan.module:
        raise BadRecipe("no recipe; add recipe: translation/numbers")
    check_count("threads", plan.threads)
    check_count("devices", plan.devices)
    names = [metric.name for metric in plan.metrics]
    if len({*names}) < len(names):
        raise BadRecipe("metric and also: each name once")
    seeds, looks, tune = plan.seeds, plan.looks, plan.tune
    every = [*seeds, *([tune.seed] if tune else [])]
    if not 0 < len({*seeds}) == len(seeds) <= MAX_SEEDS:
        raise BadRecipe(f"seeds is how many, or a list: each once, at most {MAX_SEEDS}")
    if not 0 <= min(every) <= max(every) < SEED_LIMIT:
        raise BadRecipe(f"seeds are from 0 to {SEED_LIMIT - 1:,}")
    if tune and (len(tune.values) < 2 or tune.seed in seeds):
        raise BadRecipe(
            "tune has two values or more, and a seed that is not among seeds, which would bias "
            "the comparison"
        )
    if looks and not (
        looks == sorted({*looks}) and looks[0] >= FIRST and len(seeds) <= looks[-1] <= MAX_SEEDS
    ):
        raise BadRecipe(
            f"looks: numbers of seeds from {FIRST} to {MAX_SEEDS} in rising order, the last no "
            f"less than its {len(seeds)} seeds, not {looks}"
        )


def check_keys(plan: Plan) -> None:
    """Check that what is set are keys of a recipe, each in one section of the file."""
    sections: dict[str, Iterable[str]] = {
        "overrides": recipe_keys(plan.overrides),
        "budget or devices": plan.limits,
        "tune": [plan.tune.key] if plan.tune else [],
    }
    for axis, labels in plan.axes.items():
        sections[axis] = {key for one in labels.values() for key in recipe_keys(one)}
    seen: dict[str, str] = {}
    for section, keys in sections.items():
        for key in keys:
            if key == "seed":
                raise BadRecipe(f"{section}: the seed is set by seeds: [1, 2, 3]")
            if not KEY.fullmatch(key) and key not in TOP:
                raise BadRecipe(f"{section}: {key!r} is no key of a recipe, such as model.norm")
            if key in seen:
                raise BadRecipe(f"{key} is set by {seen[key]} and by {section}; remove one")
            seen[key] = section


def baseline(plan: Plan) -> dict[str, str]:
    """The baseline's label on each axis; the first label if none is given."""
    labels = {axis: [*values] for axis, values in plan.axes.items()}
    given = {axis: label(value) for axis, value in plan.baseline.items()}
    found = dict(zip(labels, effects.baseline(labels, given), strict=True))
    for axis, name in found.items():
        if name not in labels[axis]:
            raise UnknownName(f"value of {axis} for the baseline", name, labels[axis])
    return found


def cells(plan: Plan) -> list[Cell]:
    """The cells. Refuses more than 1,000."""
    found = []
    for labels in islice(combine(plan.axes, plan.mode, plan.baseline), MAX_CELLS + 1):
        sets = [plan.axes[axis][one] for axis, one in labels.items()]
        settings = {key: value for one in sets for key, value in one.items()}
        found.append(Cell(labels, settings, name=folder_name(labels)))
    if len(found) > MAX_CELLS:
        raise BadRecipe(
            f"more than {MAX_CELLS} cells; vary less at once, or set mode: one_at_a_time"
        )
    return found


def label(value: Any) -> str:
    """A value as tables show it: ``rms``, ``rms eps=1e-06``, ``0.001``."""
    if isinstance(value, Mapping):
        rest = [f"{key}={label(inner)}" for key, inner in value.items() if key != "name"]
        return " ".join([*([label(value["name"])] if "name" in value else []), *rest])
    if isinstance(value, list):
        return f"[{', '.join(map(label, value))}]"
    return text(value)


def text(value: Any) -> str:
    """A value as an option of the command line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def combine(axes: Axes, mode: str, baseline: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The labels of each cell: all combinations (``grid``), or the baseline and the cells that
    differ from it on one axis (``one_at_a_time``).
    """
    if mode == "grid":
        for labels in product(*axes.values()):
            yield dict(zip(axes, labels, strict=True))
        return
    yield dict(baseline)
    for axis, values in axes.items():
        yield from ({**baseline, axis: one} for one in values if one != baseline[axis])


def recipe_keys(settings: Mapping[str, Any]) -> Iterator[str]:
    """The keys that are set, with those of options: ``{model.norm: {name: rms, eps: 1}}`` sets
    ``model.norm`` and ``model.norm.eps``.
    """
    for key, value in settings.items():
        yield key
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value if inner != "name")


def folder_name(labels: Mapping[str, str]) -> str:
    """The folder of a cell: ``norm=layer,width=one_head``."""
    found = ",".join(
        file_name(f"{effects.axis_name(labels, axis)}={one}") for axis, one in labels.items()
    )
    if len(found.encode()) <= MAX_NAME_BYTES:
        return found
    start = found.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    return f"{start}-{blake2b(json.dumps(labels).encode(), digest_size=4).hexdigest()}"


def file_name(text: str) -> str:
    """A text with all characters replaced that a file's name should not have."""
    return re.sub(r"[^\w.=+-]+", "_", text).strip("_")
