"""Load a sweep file, and check before its first run that every cell can be trained and that every
metric is measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfzoo.base.loading import task_class
from tfzoo.base.registry import create
from tfzoo.config.config import Config
from tfzoo.config.recipe import FROM, SEED, read
from tfzoo.config.sources import (
    ConfigSource,
    find_recipe,
    load_recipe,
    parse_options,
    read_yaml,
)
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
    check_trust(plan)
    recipe = None if plan.module else load_recipe(plan.recipe)
    if recipe and number is None:
        check_starts(plan, recipe)
    checked = range(len(plan.cells)) if number is None else [cell_index(plan, number)]
    cells = list(plan.cells)
    for index in checked:
        refused, recipes = resolve_cell(plan, recipe, cells[index])
        cells[index] = replace(cells[index], refused=refused, recipes=recipes)
    plan = replace(plan, cells=cells)
    if not plan.module:
        check_metrics(plan)
    return plan


def check_trust(plan: Plan) -> None:
    """Refuse code that is not trusted, before anything is imported.

    Raises:
        BadRecipe: the file names a module and is not trusted, or is trusted and names none.
    """
    if plan.module and not plan.trust:
        raise BadRecipe(
            f"{plan.file}: module names {plan.module!r}, whose code would run. If you trust "
            "whoever wrote it and the file: --trust"
        )
    if plan.trust and not plan.module:
        raise BadRecipe(f"{plan.file}: --trust is for the sweep of a module: remove it")


def check_starts(plan: Plan, recipe: Sequence[ConfigSource]) -> None:
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


def cell_index(plan: Plan, number: int) -> int:
    """The index of a run's cell.

    Raises:
        BadRecipe: there is no run with this number.
    """
    runs = len(plan.cells) * len(plan.seeds)
    if not 0 <= number < runs:
        raise BadRecipe(f"{plan.file}: no run {number}; it has {runs}, from 0 to {runs - 1}")
    return number // len(plan.seeds)


def resolve_cell(
    plan: Plan, recipe: Sequence[ConfigSource] | None, cell: Cell
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Why a cell is refused (``""`` if it is not), and its resolved recipes by the label of the
    tuned value.

    Raises:
        BadRecipe, BadOption, UnknownName: its settings contain a mistake.
    """
    labels = plan.tune.values if plan.tune else [""]
    if recipe is None:
        return "", {tuned: module_settings(plan, cell, tuned) for tuned in labels}
    try:
        return "", {tuned: resolve_recipe(plan, recipe, cell, tuned) for tuned in labels}
    except Clash as clash:
        return str(clash), {}


def resolve_recipe(
    plan: Plan, recipe: Sequence[ConfigSource], cell: Cell, tuned: str
) -> dict[str, Any]:
    """The configuration, without the seed, with which ``tfzoo fit`` will train a cell."""
    _, *options = plan.fit_arguments(cell, tuned)
    options.append(f"--seed={plan.seeds[0]}")  # a run that it begins with may be named by its seed
    try:
        return Config.parse(read(recipe, parse_options(options))).recipe
    except Clash:
        raise
    except TfzooError as error:
        message = re.sub(r"\.? If you trust .*--trust", "", str(error))
        where = "" if message.startswith(("--", recipe[-1].origin)) else f"cell {cell.name}: "
        error.args = (f"{plan.file}: {where}{message.removeprefix('--')}",)
        raise


def check_metrics(plan: Plan) -> None:
    """Check that runs measure the sweep's metrics, as far as that is known without data, and that
    each has its direction.

    Raises:
        BadRecipe: one is not measured, or judged the wrong way round.
    """
    trained = [recipe for cell in plan.cells for recipe in [*cell.recipes.values()][:1]]
    different = {json.dumps([one["task"], one["data"]], sort_keys=True): one for one in trained}
    wanted = [metric.name for metric in (plan.metric, *plan.also)]
    for recipe in different.values():
        known, test_sets_known = measured(recipe, wanted)
        for name in wanted:
            split, _, score = name.rpartition("/")
            possible = split.startswith("test/") and f"val/{score}" in known
            if name not in known and (test_sets_known or not possible):
                raise BadRecipe(
                    f"{plan.file}: no metric {name!r} on this data.{did_you_mean(name, known)} "
                    f"Known: {listing(known, 30)}"
                )
        for metric in (plan.metric, *plan.also):
            with within(str(plan.file)):
                task_class(recipe["task"]).check_mode(metric.name, metric.mode)


def measured(recipe: Mapping[str, Any], wanted: Collection[str]) -> tuple[list[str], bool]:
    """The scores of a training with this recipe, and whether the names of all test sets are known.

    ``fit`` tests on built-in data only. Whether a score can be computed on it is checked for the
    ``wanted`` ones.
    """
    task: Any = task_class(recipe["task"])
    validates = recipe["trainer"].get("limit_val_batches") != 0
    if not (spec := recipe["data"].get("dataset")):
        return [f"val/{score}" for score in task.higher_is_better if validates], True
    dataset = create("dataset", spec)
    sizes = getattr(dataset, "sizes", None)
    tests = [name for name in sizes or ("test",) if name not in ("train", "val")]
    splits = {"val": "val"} if validates else {}
    for name in tests:
        splits["test" if len(tests) == 1 or name == "test" else f"test/{name}"] = name
    known = [
        f"{shown}/{score}"
        for shown, split in splits.items()
        for score in task.higher_is_better
        if f"{shown}/{score}" not in wanted or task.measures(score, dataset, split)
    ]
    return known, sizes is not None
