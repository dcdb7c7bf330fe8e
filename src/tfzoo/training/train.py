"""Prepare a run's folder, data and task, train, and print the results."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from torch import nn

from tfzoo.base.ranks import rank
from tfzoo.base.terminal import notify, print_result, print_table, relative_path
from tfzoo.config.resolve import Config
from tfzoo.config.sections import LIGHTNING
from tfzoo.errors import BadRun, listing
from tfzoo.runs import checkpoints, summary
from tfzoo.runs import config as run_config
from tfzoo.runs.files import remove_leftovers
from tfzoo.runs.folder import choose
from tfzoo.runs.lock import holding
from tfzoo.training.launcher import launching
from tfzoo.training.results import table_rows
from tfzoo.training.sizes import check_sizes, warn_of_longest_batch
from tfzoo.training.training_run import TrainingRun


def train(config: Config, folder: str | None, args: list[str], source: str | None = None) -> int:
    """Train, validate and test; returns the exit code.

    A folder that holds a checkpoint of this configuration is resumed. Otherwise training starts,
    with the weights of the run or checkpoint ``source`` if one is given.
    """
    check_sizes(config)
    place = choose(config.name, folder)
    with removed_if_empty(place), nullcontext() if rank() else holding(place):
        return train_in(place, config, args, source)


def train_in(place: Path, config: Config, args: list[str], source: str | None) -> int:
    """Train in a folder that this process holds."""
    if not rank():
        remove_leftovers(place)
    resume_from = find_checkpoint(place)
    # without a checkpoint only rank 0 may read config.yaml, because it also writes it
    if resume_from or (not rank() and (place / run_config.FILE).is_file()):
        check_config(place, config)
    as_before = run_config.read(place) == run_config.plain(config.recipe)
    if resume_from and as_before and summary.is_complete(place):
        return tell_complete(place)
    run = TrainingRun(config, place, summary.environment(["fit", *args]), resume_from)
    data = config.data
    data.prepare_data()
    data.setup("fit")
    tokenizer = getattr(data, config.task.tokenizer_of_data)
    check_sizes(config, tokenizer)
    task = config.task.build(config.recipe, tokenizer)
    task.check(data)
    loaded = load_weights(task, source) if source and not resume_from else []
    if not rank():
        run_config.write(place, config.recipe)
    if config.recipe.get("samples") is not None:
        task.samples = config.recipe["samples"]
    notify(f"run: {relative_path(place)}")
    if resume_from:
        notify(f"goes on from {relative_path(resume_from)}")
    for line in loaded:
        notify(f"from: {line}")
    notify(data.describe())
    if not rank():
        warn_of_longest_batch(config, tokenizer, data)
    with launching(["fit", *args]):
        code = run.run(task, data)
    try:
        print_table(table_rows(run, args), f"{config.recipe['task']} {config.name}: {run.ended}")
        if line := task.compare_with_baselines(data, run.test_scores):
            print_result(line)
    except Exception:  # an error in the report does not change the result of the training
        traceback.print_exc()
    return code


def tell_complete(place: Path) -> int:
    """Say that nothing of a run is left to do."""
    steps, folder = summary.read(place)["fit"].get("steps", 0), relative_path(place)
    print_result(
        f"{folder} is complete: {steps:,} steps. To train on, raise --trainer.max_steps; to score "
        f"it again: tfzoo test {folder}"
    )
    return 0


@contextmanager
def removed_if_empty(folder: Path) -> Iterator[None]:
    """Context after which an empty folder is removed again if the work in it failed."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty
            if not rank():
                folder.rmdir()
                folder.parent.rmdir()
        raise


def find_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint to resume from, or None if the folder has none.

    Raises:
        BadRun: none of its checkpoints can be read.
    """
    path, unreadable = checkpoints.newest(folder) or (None, [])
    for line in unreadable:
        notify(f"passed over: {line}")
    return path


def check_config(folder: Path, config: Config) -> None:
    """Check that the run in a folder has this configuration; it may lack keys that came later.

    Raises:
        BadRun: it has another one.
    """
    # config.yaml holds only the values of Lightning's sections that are not defaults
    own = {name: section for name, section in config.sections.items() if name not in LIGHTNING}
    defaults = {name: section.defaults for name, section in own.items()}
    run_config.check(folder, config.recipe, defaults)


def load_weights(task: Any, source: str) -> list[str]:
    """Copy the weights of another run into a new task, and return what to tell the user about it.

    Raises:
        BadRun: no such run, or no weight of it fits.
    """
    path = checkpoints.resolve(source)
    return adopt(task, checkpoints.read(path), task.tokenizer_state(), relative_path(path))


def adopt(
    task: nn.Module, checkpoint: Mapping[str, Any], tokenizer: Mapping[str, Any], name: str
) -> list[str]:
    """Copy the weights of a checkpoint that have the name and shape of one of the task's own.
    Returns messages, one line each.

    Raises:
        BadRun: nothing fits.
    """
    own, given = task.state_dict(), checkpoint["state_dict"]
    fits = {
        key: value for key, value in given.items() if key in own and value.shape == own[key].shape
    }
    if not fits:
        raise BadRun(
            f"{name}: none of its {len(given)} weights has the name and shape of one of this "
            "model's"
        )
    task.load_state_dict({**own, **fits})
    shapes = [
        f"{key} {tuple(given[key].shape)} -> {tuple(own[key].shape)}"
        for key in given.keys() & own.keys() - fits.keys()
    ]
    lines = [f"{len(fits)} of {len(own)} weights are those of {name}"]
    for what, names in (
        ("other shapes", shapes),
        ("new here", own.keys() - given.keys()),
        ("not in this model", given.keys() - own.keys()),
    ):
        if names:
            lines.append(f"{what}: {listing(names, 6)}")
    if checkpoint["tfzoo"]["tokenizer"] != tokenizer:
        lines.append("its tokenizer is another one: a row of its embeddings stood for another word")
    return lines
