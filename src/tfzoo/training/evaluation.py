"""Load a trained run with its own configuration and the overrides of the command line, and score
it.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfzoo.base.allocator import keep_freed_memory
from tfzoo.base.ranks import rank
from tfzoo.base.scores import format_scores, logged_scores
from tfzoo.base.terminal import notify, print_table, relative_path
from tfzoo.config.resolve import Config, resolve
from tfzoo.config.sources import Arguments, ConfigSource
from tfzoo.errors import BadRun, TfzooError
from tfzoo.runs.folder import environment, peak_memory, write_summary
from tfzoo.runs.run import Run
from tfzoo.training.device import trainer_device


@dataclass
class TrainedRun:
    """A trained run.

    Args:
        run: the checkpoint.
        config: the configuration of its training with the overrides of the command line.
        task: the task with the checkpoint's weights.
        words: those of the command line, the command first.
    """

    run: Run
    config: Config
    task: Any
    words: list[str]

    @property
    def command(self) -> str:
        """``test``, ``validate`` or ``predict``."""
        return self.words[0]

    def data(self) -> Any:
        """Prepare and return the data, with the run's own tokenizer."""
        data = self.config.data
        setattr(data, self.task.tokenizer_of_data, self.task.tokenizer)
        data.prepare_data()
        data.setup("test")
        return data

    @property
    def folder(self) -> Path | None:
        """The run's folder, where there is one that may be written."""
        folder = self.run.folder
        return folder if folder and os.access(folder, os.W_OK) else None

    def record(self, section: Mapping[str, Any]) -> None:
        """Write a section to the summary of the run whose folder holds the checkpoint, if any."""
        if self.run.folder and not self.folder and not rank():
            notify(f"{relative_path(self.run.folder)} may not be written: nothing is kept there")
        if self.folder and not rank():
            section = {"ended": "completed", **section, "checkpoint": str(self.run.path.absolute())}
            used = {"peak_memory": peak_memory(), **environment(self.words)}
            write_summary(self.folder, self.command, {**section, **used})


def open_run(given: Namespace) -> TrainedRun:
    """Load the run that the command line of ``test``, ``validate`` or ``predict`` names.

    Raises:
        TfzooError: there is no such device.
        BadRun: no such run, or a damaged checkpoint.
        BadRecipe: a bad option, or one that would change the model.
    """
    arguments, command = given.arguments, given.words[0]
    chosen = {} if given.device is None else trainer_device(given.device)
    run = Run(given.run)
    keep_freed_memory()
    notify(f"checkpoint: {relative_path(run.path)}")
    kept = run.entry["recipe"]
    check_overrides(command, arguments, run.task)
    trained = kept.get("trainer") or {}
    as_trained = {key: trained[key] for key in ("precision", "accelerator") if key in trained}
    trainer = {"devices": 1, **as_trained, **chosen}  # no callbacks or loggers
    own = {**kept, "trainer": trainer, "checkpoint": {}}
    check_data(command, run.path, kept, arguments)
    recipe = ConfigSource({"task": run.entry["task"], **own}, str(run.path), run.path)
    config = resolve([recipe], arguments)
    changed = {option.key for option in arguments.options}
    for name in sorted(changed):
        section, *keys = name.split(".")
        if not keys or section == "trainer":
            continue
        before, now = (own.get(section) or {}).get(keys[0]), config.recipe[section].get(keys[0])
        if before != now:
            notify(f"{section}.{keys[0]}: {now!r} here, {before!r} in training")
    run.entry["recipe"] = config.recipe
    return TrainedRun(run, config, run.load(), given.words)


def check_overrides(command: str, arguments: Arguments, task: Any) -> None:
    """Check that no option would change what a trained run was trained with, or goes unread.

    Raises:
        TfzooError: naming the option.
    """
    for key in [option.key for option in arguments.options]:
        if command == "predict" and key.startswith("trainer."):
            raise TfzooError(f"--{key}: predict has no Trainer that would read it; leave it out")
        if key.partition(".")[0] in {
            "model",
            "checkpoint",
            "task",
            "seed",
            *task.training_settings,
        }:
            raise TfzooError(
                f"--{key}: the run is trained; only how it is used and on what can differ "
                "(data, search, trainer)"
            )
        if key.startswith("data.tokenizer"):
            raise TfzooError(
                f"--{key} does not match the checkpoint, which has a tokenizer of its own: "
                "leave it out"
            )


def check_data(command: str, path: Path, recipe: Mapping[str, Any], arguments: Arguments) -> None:
    """Raise BadRun if neither the recipe of a checkpoint nor the command line names data."""
    named = {*recipe, *(option.key.partition(".")[0] for option in arguments.options)}
    if "data" not in named and not arguments.configs:
        raise BadRun(
            f"{relative_path(path)} names no data, as it was trained elsewhere or in Python. Name "
            f"files, such as --data.root FOLDER, or stay in Python: trainer.{command}(task, data)"
        )


def check_test_sets(command: str, data: Any) -> None:
    """Raise TfzooError if the data has no test set."""
    if not data.test_names:
        raise TfzooError(
            f"{command}: the run's data has no test set; name one, such as --data.test FILE "
            "(tfzoo validate scores validation)"
        )


def evaluate(given: Namespace) -> int:
    """Run Lightning's ``validate`` or ``test``, print the scores and write them to the summary."""
    trained = open_run(given)
    command = trained.command
    from tfzoo.training.progress import Bar
    from tfzoo.training.trainer import launching, make_trainer

    data = trained.data()
    if command == "test":
        check_test_sets(command, data)
    trainer = make_trainer(trained.config.lightning, None, [Bar()])
    with launching(trained.words):
        getattr(trainer, command)(trained.task, datamodule=data, verbose=False)
    scores = logged_scores(trainer)
    intervals = trained.task.intervals() if command == "test" and not rank() else {}
    trained.record({"scores": scores, **({"intervals": intervals} if intervals else {})})
    rows = format_scores(scores, intervals)
    if trained.folder and not rank():
        pictures = trained.task.save_figures(trained.folder)
        rows += [("picture", relative_path(path)) for path in pictures]
    print_table(rows, f"{command} {relative_path(trained.run.path)}")
    return 0
