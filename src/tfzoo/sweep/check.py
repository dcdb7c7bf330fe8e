"""What can be known of a sweep before its first run: that each cell can be trained, and that what
it is judged by will be measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.config.arguments import parse_arguments
from tfzoo.config.config import resolve
from tfzoo.config.loader import read_yaml
from tfzoo.config.packaged import find
from tfzoo.config.sections import task_class
from tfzoo.errors import BadRecipe, Clash, TfzooError, did_you_mean, listing
from tfzoo.registry import create

if TYPE_CHECKING:
    from tfzoo.sweep.plan import Cell, Plan


def place(plan: Plan, number: int) -> int:
    """The cell of a run by number. Raises BadRecipe where there are fewer."""
    runs = len(plan.cells) * len(plan.seeds)
    if not 0 <= number < runs:
        raise BadRecipe(f"{plan.file}: no run {number}; it has {runs}, from 0 to {runs - 1}")
    return number // len(plan.seeds)


def cell(plan: Plan, one: Cell) -> tuple[str, dict[str, dict[str, Any]]]:
    """Why a cell cannot be run, if so, and its resolved recipes by the label of the tuned value.

    Raises:
        BadRecipe, BadOption, UnknownName: it holds a mistake.
    """
    try:
        return "", {
            tuned: resolved(plan, one, tuned) for tuned in (plan.tune.values if plan.tune else [""])
        }
    except Clash as clash:
        return str(clash), {}


def resolved(plan: Plan, one: Cell, tuned: str) -> dict[str, Any]:
    """The configuration that ``tfzoo fit`` will make of a cell, but for the seed."""
    path = find(plan.recipe)
    recipe, *options = plan.words(one, tuned)
    shown = recipe if Path(recipe).is_file() else f"{recipe.removesuffix('.yaml')}.yaml"
    try:
        return resolve([(read_yaml(path), shown)], parse_arguments(options), False, path).recipe
    except Clash:
        raise
    except TfzooError as error:
        said = re.sub(r"\.? If you trust .*--trust", "", str(error))
        at = "" if said.startswith(("--", shown)) else f"cell {one.name}: "
        error.args = (f"{plan.file}: {at}{said.removeprefix('--')}",)
        raise


def metrics(plan: Plan) -> None:
    """See that a run will measure what it is judged by, as far as can be known without data. Raises
    BadRecipe.
    """
    for one in plan.cells:
        for recipe in list(one.recipes.values())[:1]:
            known, sets_are_known = measured(recipe)
            for metric in (plan.metric, *plan.also):
                split, _, name = metric.name.rpartition("/")
                if metric.name in known or (
                    not sets_are_known and split.startswith("test/") and f"val/{name}" in known
                ):
                    continue
                raise BadRecipe(
                    f"{plan.file}: no metric {metric.name!r}.{did_you_mean(metric.name, known)} Known: {listing(known, 30)}"
                )


def measured(recipe: Mapping[str, Any]) -> tuple[list[str], bool]:
    """The scores of a training with this recipe, and whether the names of all test sets are known.

    ``fit`` tests on built-in data alone.
    """
    names = task_class(recipe["task"]).measures
    sets = ["val"]
    spec = recipe["data"].get("dataset")
    splits = getattr(create("dataset", spec), "sizes", None) if spec else {}
    if spec:
        tests = [name for name in splits or ("test",) if name not in ("train", "val")]
        sets += ["test" if len(tests) == 1 or name == "test" else f"test/{name}" for name in tests]
    return [f"{split}/{name}" for split in sets for name in names], splits is not None
