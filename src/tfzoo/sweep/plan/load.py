"""Load a sweep file, and check before its first run that every cell can be trained and that every
metric is measured.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from tfzoo.base.loading import task_class
from tfzoo.base.registry import create, registry
from tfzoo.base.values import check_arguments
from tfzoo.base.yaml_files import read_yaml
from tfzoo.config.config import Config
from tfzoo.config.recipe import Source, find_recipe, load_recipe, packaged_sweeps, parse_options
from tfzoo.data.source import named_tests
from tfzoo.errors import BadRecipe, Clash, TfzooError, did_you_mean, listing, within
from tfzoo.sweep.plan.sweep_file import Cell, Plan, parse
from tfzoo.training.start import begin

SECTIONS = ("module", "data", "swap", "trainer")
SET_BY_SWEEP = ("default_root_dir", "logger", "callbacks", "enable_checkpointing")
"""Arguments of the Trainer that the sweep sets itself."""
LIMITS = ("max_steps", "max_epochs", "max_time")
"""Arguments of the Trainer that limit training; one must be set."""


def load(path: str | Path, trust: bool = False, seeds: Sequence[int] = ()) -> Plan:
    """Read and check a sweep file, given by packaged name or by path. ``trust`` lets it name a
    module, or classes of a recipe, whose code is then imported. ``seeds`` replace the file's.

    The recipe of each cell is parsed and its model built without memory; no data is read. Cells
    whose parts are incompatible are marked as ``refused``.

    Raises:
        BadRecipe, BadOption, UnknownName: one line that names the file and the mistake.
    """
    if (Path(path) / "sweep.yaml").is_file():
        raise BadRecipe(
            f"{path} is the folder of a sweep, not its file: tfzoo sweep {path}/sweep.yaml --run "
            f"{path} goes on with it, tfzoo report {path} judges it"
        )
    file = find_recipe(str(path), offered=packaged_sweeps()).resolve()
    tree = read_yaml(file)
    plan = replace(parse(file, {**tree, "seeds": [*seeds]} if seeds else tree), trust=trust)
    if plan.module and not trust:  # before anything is imported
        raise BadRecipe(
            f"{file}: module names {plan.module!r}, whose code would run. If you trust whoever "
            "wrote it and the file: --trust"
        )
    recipe = [] if plan.module else load_recipe(plan.recipe, trust)
    plan = replace(plan, cells=[resolve_cell(plan, recipe, cell) for cell in plan.cells])
    if recipe:
        with within(str(file)):
            check_metrics(plan)
    return plan


def resolve_cell(plan: Plan, recipe: Sequence[Source], cell: Cell) -> Cell:
    """The cell with its resolved recipes, or with the reason why it is refused."""
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
        config = Config.parse(*begin(recipe, parse_options(options, plan.trust)))
        data = config.make_data()
        text = getattr(data, "text", None)
        if text and not (text.dataset or text.name):
            text.external(data.form)  # the files are there
        return config.recipe
    except Clash:
        raise
    except TfzooError as error:
        message = str(error)
        where = "" if message.startswith(("--", recipe[-1].origin)) else f"cell {cell.name}: "
        error.args = (f"{plan.file}: {where}{message.removeprefix('--')}",)
        raise


def check_metrics(plan: Plan) -> None:
    """Check that runs measure the sweep's metrics, and that each has its direction."""
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


# A LightningModule of the user's own ------------------------------------------------------------


def module_settings(plan: Plan, cell: Cell, tuned: str) -> dict[str, Any]:
    """The constructor arguments of a cell's module, data and Trainer, and what is swapped."""
    if plan.budget.tokens:
        raise BadRecipe(f"{plan.file}: budget.tokens is for recipes; a module has budget.steps")
    found: dict[str, Any] = {section: {} for section in SECTIONS}
    for key, value in plan.settings_of(cell, tuned).items():
        section, _, name = key.partition(".")
        if section not in SECTIONS or not name or "." in name:
            raise BadRecipe(
                f"{plan.file}: {key} is no key of the sweep of a module. Known: module.ARGUMENT "
                "and data.ARGUMENT of the constructors, trainer.ARGUMENT of Lightning's Trainer, "
                "swap.norm, swap.attention and further arguments of tfzoo.SwapParts"
            )
        found[section][name] = value
    with within(str(plan.file)):
        check_module(plan, found)
    for section, path in (("module", plan.module), ("data", plan.data)):
        found[section] = {"class": path, "arguments": found[section]}
    return found


def check_module(plan: Plan, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the arguments of a cell. Imports the module and its data."""
    import lightning.pytorch as L

    from tfzoo.swapping.swap import SWAPPED
    from tfzoo.swapping.swap_parts import SwapParts

    classes = {"module": load_class(plan.module, L.LightningModule), "swap": SwapParts}
    if plan.data:
        classes["data"] = load_class(plan.data, L.LightningDataModule)
    elif settings["data"]:
        raise BadRecipe("data has arguments, but no class: data: package.module:Class")
    for section, cls in {**classes, "trainer": L.Trainer}.items():
        with within(section):
            check_arguments(cls, settings[section])
    for kind in SWAPPED:
        if spec := settings["swap"].get(kind):
            registry(kind).options(spec)
    if taken := [name for name in SET_BY_SWEEP if name in settings["trainer"]]:
        raise BadRecipe(f"trainer.{taken[0]} is set by the sweep: remove it")
    if not any(settings["trainer"].get(limit) for limit in LIMITS):
        raise BadRecipe("training has no end: add budget: {steps: 300}, or trainer.max_epochs")


def load_class(path: str, base: type) -> Any:
    """The class ``package.module:Class``, of the working directory or an installed package."""
    module, colon, name = path.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise BadRecipe(f"{path!r} is no class: write package.module:Class")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # of any kind: it is somebody else's
        raise BadRecipe(f"cannot import {path}: {type(error).__name__}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise BadRecipe(f"{path} is no {base.__name__} of lightning.pytorch")
    return found
