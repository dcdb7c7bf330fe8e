"""Load a sweep file, and check before its first run that every cell can be trained and that every
metric is measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfzoo.base.loading import task_class
from tfzoo.base.registry import create
from tfzoo.config.config import Config
from tfzoo.config.recipe import (
    FROM,
    SEED,
    Source,
    combine,
    find_recipe,
    load_recipe,
    parse_options,
    read_yaml,
)
from tfzoo.data.source import named_tests
from tfzoo.errors import BadRecipe, Clash, TfzooError, did_you_mean, listing, within
from tfzoo.runs.folder import SCHEME
from tfzoo.sweep.plan.own_module import module_settings
from tfzoo.sweep.plan.sweep_file import Cell, Plan, parse


def load(
    path: str | Path,
    number: int | None = None,
    trust: bool = False,
    seeds: Sequence[int] = (),
) -> Plan:
    """Read and check a sweep file, given by packaged name or by path. ``trust`` lets it name a
    module, whose code is then imported. ``seeds`` replace those of the file.

    The recipe of each cell is parsed and its model built without memory; no data is read. Cells
    whose parts are incompatible are marked as ``refused``. With the ``number`` of a run only its
    cell is checked.

    Raises:
        BadRecipe, BadOption, UnknownName: one line that names the file and the mistake.
    """
    file = find_recipe(str(path)).resolve()
    tree = read_yaml(file)
    plan = replace(parse(file, {**tree, "seeds": [*seeds]} if seeds else tree), trust=trust)
    if plan.module and not trust:  # before anything is imported
        raise BadRecipe(
            f"{file}: module names {plan.module!r}, whose code would run. If you trust whoever "
            "wrote it and the file: --trust"
        )
    recipe = [] if plan.module else load_recipe(plan.recipe)
    runs = len(plan.cells) * len(plan.seeds)
    if number is not None and not 0 <= number < runs:
        raise BadRecipe(f"{file}: no run {number}; it has {runs}, from 0 to {runs - 1}")
    chosen = None if number is None else number // len(plan.seeds)
    if recipe and chosen is None:
        check_starts(plan, recipe)
    cells = [
        resolve_cell(plan, recipe, cell) if chosen in (None, index) else cell
        for index, cell in enumerate(plan.cells)
    ]
    plan = replace(plan, cells=cells)
    if not plan.module:
        with within(str(file)):
            check_metrics(plan)
    return plan


def check_starts(plan: Plan, recipe: Sequence[Source]) -> None:
    """Check that the runs are there with which the seeds begin, each with one of its own.

    Raises:
        BadRecipe: some are not; the message has the command that trains them.
    """
    seeds = [*plan.seeds, *([plan.tune.seed] if plan.tune else [])]
    own = next((one.values[FROM] for one in reversed(recipe) if FROM in one.values), None)
    for start in {str(plan.settings_of(cell).get(FROM, own)): None for cell in plan.cells}:
        paths = {seed: Path(start.replace(SEED, str(seed))).expanduser() for seed in seeds}
        missing = [str(seed) for seed, path in paths.items() if not path.exists()]
        if SEED in start and not start.startswith(SCHEME) and missing:
            raise BadRecipe(
                f"{plan.file}: no run at {paths[int(missing[0])]}, with which it begins. To train "
                f"what is missing, with the sweep's recipe: for seed in {' '.join(missing)}; do "
                f"tfzoo fit {plan.recipe} --seed $seed --run {start.replace(SEED, '$seed')}; done"
            )


def resolve_cell(plan: Plan, recipe: Sequence[Source], cell: Cell) -> Cell:
    """The cell with its resolved recipes, or with the reason why it is refused.

    Raises:
        BadRecipe, BadOption, UnknownName: its settings contain a mistake.
    """
    try:
        recipes = {
            tuned: resolve_recipe(plan, recipe, cell, tuned)
            if recipe
            else module_settings(plan, cell, tuned)
            for tuned in (plan.tune.values if plan.tune else [""])
        }
    except Clash as clash:
        return replace(cell, refused=str(clash))
    return replace(cell, recipes=recipes)


def resolve_recipe(plan: Plan, recipe: Sequence[Source], cell: Cell, tuned: str) -> dict[str, Any]:
    """The configuration, without the seed, with which ``tfzoo fit`` will train a cell."""
    _, *options = plan.fit_arguments(cell, tuned)
    options.append(f"--seed={plan.seeds[0]}")  # a run that it begins with may be named by its seed
    try:
        return Config.parse(combine(recipe, parse_options(options))).recipe
    except Clash:
        raise
    except TfzooError as error:
        message = re.sub(r"\.? If you trust .*--trust", "", str(error))
        where = "" if message.startswith(("--", recipe[-1].origin)) else f"cell {cell.name}: "
        error.args = (f"{plan.file}: {where}{message.removeprefix('--')}",)
        raise


def check_metrics(plan: Plan) -> None:
    """Check that runs measure the sweep's metrics, and that each has its direction.

    Raises:
        BadRecipe: one is not measured, or judged the wrong way round.
    """
    trained = [recipe for cell in plan.cells for recipe in [*cell.recipes.values()][:1]]
    different = {json.dumps([one["task"], one["data"]], sort_keys=True): one for one in trained}
    for recipe in different.values():
        task: Any = task_class(recipe["task"])
        dataset = create("dataset", spec) if (spec := recipe["data"].get("dataset")) else None
        splits = scored_splits(recipe, dataset)
        known = [f"{split}/{score}" for split in splits for score in task.higher_is_better]
        for metric in plan.metrics:
            split, _, score = metric.name.rpartition("/")
            if metric.name not in known:
                why = f".{did_you_mean(metric.name, known)} Known: {listing(known, 30)}"
                if not any(one.startswith("test") for one in splits):
                    why += ". There is no test set: overrides: {data.test: FILE} names one"
                raise BadRecipe(f"no metric {metric.name!r} on this data{why}")
            if dataset and not task.measures(score, dataset, splits[split]):
                raise BadRecipe(
                    f"no metric {metric.name!r} on this data, whose texts are too short"
                )
            task.check_mode(metric.name, metric.mode)


def scored_splits(recipe: Mapping[str, Any], dataset: Any) -> dict[str, str]:
    """The splits that runs are scored on, by the beginning of the names of their metrics. Those of
    a data set of the hub are not known; one test set is assumed.
    """
    data = recipe["data"]
    if dataset:
        names = getattr(dataset, "sizes", None) or dataset.splits(0)
    elif data.get("test") or not data.get("root"):
        names = named_tests(data.get("test")) or (["test"] if data.get("name") else [])
    else:
        names = {
            Path(one.name.removesuffix(".gz")).stem for one in Path(data["root"]).glob("test*")
        }
    tests = [name for name in names if name not in ("train", "val")]
    validates = recipe["trainer"].get("limit_val_batches") != 0
    return {
        **({"val": "val"} if validates else {}),
        **{"test" if len(tests) == 1 or name == "test" else f"test/{name}": name for name in tests},
    }
