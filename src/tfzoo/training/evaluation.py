"""Load a trained run with its own configuration and the overrides of the command line, and score
it.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfzoo.base.allocator import keep_freed_memory
from tfzoo.base.ranks import rank
from tfzoo.base.scores import format_scores, logged_scores
from tfzoo.base.terminal import notify, print_table, relative_path
from tfzoo.base.values import leaves
from tfzoo.config.resolve import Config, resolve
from tfzoo.config.sections import TOP
from tfzoo.config.sources import Arguments, ConfigSource
from tfzoo.config.start import FROM
from tfzoo.errors import BadRun, TfzooError
from tfzoo.runs.folder import write_summary
from tfzoo.runs.machine import environment, peak_memory
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


def load_trained(given: Namespace) -> TrainedRun:
    """Load the run that the command line of ``test``, ``validate`` or ``predict`` names.

    Raises:
        TfzooError: there is no such device.
        BadRun: no such run, or a damaged checkpoint.
        BadRecipe: a bad option, or one that would change the model.
    """
    arguments, command = given.arguments, given.words[0]
    changed = overrides(arguments)
    chosen = {} if given.device is None else trainer_device(given.device)
    run = Run(given.run)
    keep_freed_memory()
    notify(f"checkpoint: {relative_path(run.path)}")
    kept = run.entry["recipe"]
    check_overrides(command, changed, run.task)
    check_data(command, run.path, {*kept, *(key.partition(".")[0] for key in changed)})
    trained = kept.get("trainer") or {}
    as_trained = {key: trained[key] for key in ("precision", "accelerator") if key in trained}
    trainer = {"devices": 1, **as_trained, **chosen}  # no callbacks or loggers
    # What training began with need not be there any more.
    own = {**kept, FROM: None, "trainer": trainer, "checkpoint": {}}
    recipe = ConfigSource({"task": run.entry["task"], **own}, str(run.path), run.path)
    config = resolve([recipe], arguments)
    for name in sorted(changed):
        section, *keys = name.split(".")
        if not keys or section == "trainer":
            continue
        before, now = (own.get(section) or {}).get(keys[0]), config.recipe[section].get(keys[0])
        if before != now:
            notify(f"{section}.{keys[0]}: {now!r} here, {before!r} in training")
    run.entry["recipe"] = config.recipe
    return TrainedRun(run, config, run.load(), given.words)


def overrides(arguments: Arguments) -> dict[str, str]:
    """The dotted keys that options and files of a command line set, and what messages call each."""
    named: dict[str, str] = {}
    for config in arguments.configs:
        for key in [".".join(keys) for keys, _ in leaves(config.values)]:
            named[key] = f"{config.origin}: {key}"
    return named | {option.key: option.origin for option in arguments.options}


def check_overrides(command: str, changed: Mapping[str, str], task: Any) -> None:
    """Check that nothing would change what a trained run was trained with, or goes unread.

    Raises:
        TfzooError: naming the option, or the file and its key.
    """
    of_training = {"model", "adapter", "checkpoint", *TOP, *task.training_settings} - {"samples"}
    for key, where in changed.items():
        if command == "predict" and key.startswith("trainer."):
            raise TfzooError(f"{where}: predict has no Trainer that would read it; leave it out")
        if key.partition(".")[0] in of_training:
            raise TfzooError(
                f"{where}: the run is trained; only how it is used and on what can differ "
                "(data, search, trainer)"
            )
        if key.startswith("data.tokenizer"):
            raise TfzooError(
                f"{where} does not match the checkpoint, which has a tokenizer of its own: "
                "leave it out"
            )


def check_data(command: str, path: Path, sections: Collection[str]) -> None:
    """Raise BadRun if neither the recipe of a checkpoint nor the command line names data."""
    if "data" not in sections:
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
    trained = load_trained(given)
    command = trained.command
    from tfzoo.training.progress import progress_bar
    from tfzoo.training.trainer import launching, make_trainer

    data = trained.data()
    if command == "test":
        check_test_sets(command, data)
    trainer = make_trainer(trained.config.recipe["trainer"], None, [progress_bar()])
    with launching(trained.words):
        getattr(trainer, command)(trained.task, datamodule=data, verbose=False)
    if not (scores := logged_scores(trainer)):
        limit = f"trainer.limit_{'test' if command == 'test' else 'val'}_batches"
        raise TfzooError(f"{command}: nothing was scored: leave {limit} out")
    intervals = trained.task.intervals() if command == "test" and not rank() else {}
    trained.record({"scores": scores, **({"intervals": intervals} if intervals else {})})
    rows = format_scores(scores, intervals)
    if trained.folder and not rank():
        pictures = trained.task.save_figures(trained.folder)
        rows += [("picture", relative_path(path)) for path in pictures]
    print_table(rows, f"{command} {relative_path(trained.run.path)}")
    return 0
