"""Load a trained run with its own configuration and the overrides of the command line, and score
it.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfzoo.base.allocator import keep_freed_memory
from tfzoo.base.ranks import rank
from tfzoo.base.scores import format_scores, logged_scores
from tfzoo.base.terminal import notify, print_table, relative_path, tsv_cell
from tfzoo.config.config import Config
from tfzoo.config.recipe import FROM, read
from tfzoo.config.sections import TOP
from tfzoo.config.sources import ConfigSource
from tfzoo.errors import BadRun, TfzooError, UnknownName
from tfzoo.runs.files import replacing
from tfzoo.runs.folder import write_summary
from tfzoo.runs.machine import environment, peak_memory
from tfzoo.runs.run import Run
from tfzoo.training.device import trainer_device

SETS = {"test": "test", "validation": "validate"}
"""What can be scored, and the method of Lightning's Trainer that does it."""
FORMATS = ("tsv", "jsonl")


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

    def record(self, name: str, section: Mapping[str, Any]) -> None:
        """Write a section to the summary of the run whose folder holds the checkpoint, if any."""
        if self.run.folder and not self.folder and not rank():
            notify(f"{relative_path(self.run.folder)} may not be written: nothing is kept there")
        if self.folder and not rank():
            section = {"ended": "completed", **section, "checkpoint": str(self.run.path.absolute())}
            used = {"peak_memory": peak_memory(), **environment(self.words)}
            write_summary(self.folder, name, {**section, **used})


def load_trained(given: Namespace) -> TrainedRun:
    """Load the run that the command line of ``score`` names.

    Raises:
        TfzooError: there is no such device.
        BadRun: no such run, or a damaged checkpoint.
        BadRecipe: a bad option, or one that would change the model.
    """
    chosen = {} if given.device is None else trainer_device(given.device)
    run = Run(given.run)
    keep_freed_memory()
    notify(f"checkpoint: {relative_path(run.path)}")
    kept = run.entry["recipe"]
    trained = kept.get("trainer") or {}
    as_trained = {key: trained[key] for key in ("precision", "accelerator") if key in trained}
    trainer = {"devices": 1, **as_trained, **chosen}  # no callbacks or loggers
    # What training began with need not be there any more.
    own = {**kept, FROM: None, "trainer": trainer, "checkpoint": {}}
    source = ConfigSource({"task": run.entry["task"], **own}, str(run.path), run.path)
    for one in given.overrides:
        if FROM in one.values:  # refused before anything is read from there
            check_overrides({FROM: one.origin}, run.task)
    recipe = read([source], given.overrides, given.trust)
    changed = {key: where for key, where in recipe.origins.items() if where != source.origin}
    check_overrides(changed, run.task)
    check_data(run.path, {*kept, *(key.partition(".")[0] for key in changed)})
    config = Config.parse(recipe)
    for name in sorted(changed):
        section, *keys = name.split(".")
        if not keys or section == "trainer":
            continue
        before, now = (own.get(section) or {}).get(keys[0]), config.recipe[section].get(keys[0])
        if before != now:
            notify(f"{section}.{keys[0]}: {now!r} here, {before!r} in training")
    run.entry["recipe"] = config.recipe
    return TrainedRun(run, config, run.load(), given.words)


def check_overrides(changed: Mapping[str, str], task: Any) -> None:
    """Check that nothing would change what a trained run was trained with, or goes unread.

    Raises:
        TfzooError: naming the option, or the file and its key.
    """
    of_training = {"model", "adapter", "checkpoint", *TOP, *task.training_settings} - {"samples"}
    for key, origin in changed.items():
        where = origin if origin.startswith("--") else f"{origin}: {key}"
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


def check_data(path: Path, sections: Collection[str]) -> None:
    """Raise BadRun if neither the recipe of a checkpoint nor the command line names data."""
    if "data" not in sections:
        raise BadRun(
            f"{relative_path(path)} names no data, as it was trained elsewhere or in Python. Name "
            f"files, such as --data.root FOLDER, or stay in Python: trainer.test(task, data)"
        )


def evaluate(given: Namespace) -> int:
    """Run Lightning's ``validate`` or ``test``, print the scores and write them to the summary;
    write the predictions that are asked for.

    Raises:
        TfzooError: no such data or format, no test set, nothing that was scored, or predictions of
            a run that has no folder.
    """
    if given.data not in SETS:
        raise UnknownName("data", given.data, SETS, "a file is named by --data.test FILE")
    stage = SETS[given.data]
    trained = load_trained(given)
    check_predictions(given, trained)
    from tfzoo.training.progress import progress_bar
    from tfzoo.training.trainer import launching, make_trainer

    data = trained.data()
    if stage == "test" and not data.test_names:
        raise TfzooError(
            "the run's data has no test set: name one, such as --data.test FILE, or score its "
            f"validation text: tfzoo score {relative_path(trained.run.path)} validation"
        )
    trainer = make_trainer(trained.config.recipe["trainer"], None, [progress_bar()])
    with launching(trained.words):
        getattr(trainer, stage)(trained.task, datamodule=data, verbose=False)
    if not (scores := logged_scores(trainer)):
        limit = f"trainer.limit_{'test' if stage == 'test' else 'val'}_batches"
        raise TfzooError(f"nothing was scored: leave {limit} out")
    intervals = trained.task.intervals() if stage == "test" and not rank() else {}
    trained.record(stage, {"scores": scores, **({"intervals": intervals} if intervals else {})})
    rows = format_scores(scores, intervals)
    if trained.folder and not rank():
        pictures = trained.task.save_figures(trained.folder)
        rows += [("picture", relative_path(path)) for path in pictures]
    if given.predictions and trained.folder and not rank():
        rows += write_predictions(trained, trained.folder, data, given.predictions)
    print_table(rows, f"{stage} {relative_path(trained.run.path)}")
    return 0


def check_predictions(given: Namespace, trained: TrainedRun) -> None:
    """Check ``--predictions`` before anything is scored."""
    if not given.predictions:
        return
    if given.predictions not in FORMATS:
        raise UnknownName("format", given.predictions, FORMATS)
    if given.data != "test":
        raise TfzooError("--predictions are those of test sets: leave validation out")
    if trained.folder is None:
        path = relative_path(trained.run.path)
        raise TfzooError(
            f"{path} lies in no run's folder that may be written; use tfzoo predict {path} FILE"
        )


def write_predictions(
    trained: TrainedRun, folder: Path, data: Any, form: str
) -> Iterator[tuple[str, str]]:
    """Write a file for each test set: JSON lines, or tab-separated text; its name and path."""
    (folder / "predictions").mkdir(exist_ok=True)
    for name in data.test_names:
        path, rows = folder / "predictions" / f"{name}.{form}", trained.task.predictions(data, name)
        with replacing(path) as temporary:
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            if form == "tsv":
                lines = [
                    "\t".join(rows[0]),
                    *("\t".join(map(tsv_cell, row.values())) for row in rows),
                ]
            temporary.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
        yield "predictions", relative_path(path)
