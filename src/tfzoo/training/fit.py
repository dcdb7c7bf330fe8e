"""One training from its configuration to its last table."""

from __future__ import annotations

import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from tfzoo.config.config import Config
from tfzoo.runs import config as run_config
from tfzoo.terminal import notify, print_result, print_table, relative_path


def train(config: Config, given: str | None, args: list[str], source: str | None = None) -> int:
    """Train, validate, test; returns the exit code. In a run's own folder go on with it, else begin
    with ``source``'s weights.
    """
    from tfzoo.runs.folder import choose, rank
    from tfzoo.training.launcher import launching
    from tfzoo.training.training import Training, refuse

    folder = choose(config.name, given)
    try:
        found = going_on(folder, config)
        refuse(config, folder)
        data = config.task.Data(**config.recipe["data"], seed=config.recipe["seed"])
        data.prepare_data()
        data.setup("fit")
        task = config.task.build(config.recipe, getattr(data, config.task.tokenizer_of_data))
        task.check(data)
        taken = begin(task, source) if source and not found else []
        training = Training(config, folder, task, data, args, found)
    except BaseException:
        with suppress(
            OSError
        ):  # nothing was trained: leave no empty folder, but keep one with something in it
            if not rank():
                folder.rmdir()
                folder.parent.rmdir()
        raise
    if not rank():
        run_config.write(folder, config.recipe)
    notify(f"run: {relative_path(folder)}")
    if found:
        notify(f"goes on from {relative_path(found)}")
    for line in taken:
        notify(f"from: {line}")
    notify(data.describe())
    notify(f"model: {training.parameters:,} parameters")
    with launching(["fit", *args]):
        code = training.run()
    try:
        rows = training.rows()
        print_table(
            [(name, value) for name, value in rows],
            f"{config.recipe['task']} {config.name}: {training.ended}",
        )
        if line := task.compare_with_baselines(data, training.tested):
            print_result(line)
    except Exception:  # the training is what counts
        traceback.print_exc()
    return code


def check_config(folder: Path, config: Config) -> None:
    """Check that the run of a folder has this configuration; it may be of an older version.

    Raises:
        BadRun: it has another one.
    """
    from tfzoo.config.sections import sections
    from tfzoo.renamed import renamed_keys

    own = {
        name: section
        for name, section in sections(config.task).items()
        if name not in ("trainer", "checkpoint")  # of these, only what was set is written
    }
    renamed = {
        f"{name}.{old}": f"{name}.{new}"
        for name, section in own.items()
        for old, new in renamed_keys(section.cls).items()
    }
    defaults = {name: section.defaults for name, section in own.items()}
    run_config.check(folder, config.recipe, renamed, defaults)


def going_on(folder: Path, config: Config) -> Path | None:
    """The checkpoint to go on from, if the folder is that of a run with one.

    Raises:
        BadRun: the run has another configuration, or checkpoints of which none can be read.
    """
    from tfzoo.runs import checkpoints
    from tfzoo.runs.folder import rank

    found = checkpoints.newest(folder)
    if found or (
        not rank() and (folder / run_config.FILE).is_file()
    ):  # another process may be just writing it
        check_config(folder, config)
    if not found:
        return None
    path, passed_over = found
    for line in passed_over:
        notify(f"passed over: {line}")
    return path


def begin(task: Any, source: str) -> list[str]:
    """Give a new task the weights of another run; returns what is to be said of it.

    Raises:
        BadRun: no such run, or nothing of it fits.
    """
    from tfzoo.runs import checkpoints
    from tfzoo.runs.weights import adopt

    path = checkpoints.resolve(source)
    return adopt(task, checkpoints.read(path), task.tokenizer_state(), relative_path(path))
