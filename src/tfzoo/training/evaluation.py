"""Score a trained run, with its own configuration and the overrides of the command line."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfzoo.base.files import replacing
from tfzoo.base.processes import rank
from tfzoo.base.scores import format_scores, logged_scores
from tfzoo.base.terminal import notify, print_table, relative_path, row_line
from tfzoo.base.values import leaves
from tfzoo.config.config import Config
from tfzoo.config.recipe import TOP, Source
from tfzoo.errors import BadRun, TfzooError
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.runs.folder import write_summary
from tfzoo.runs.machine import environment, peak_memory
from tfzoo.training.load import load, trainer_device

SETS = {"test": "test", "validation": "validate"}
"""What can be scored, and the method of Lightning's Trainer that does it."""


def evaluate(
    name: str,
    what: str,
    overrides: Sequence[Source],
    *,
    predictions: str | None,
    device: str | None,
    trust: bool,
    command: list[str],
) -> int:
    """Run Lightning's ``validate`` or ``test`` on a run, print the scores and write them to its
    summary; write the predictions that are asked for.

    Args:
        name: of the run, as :class:`~tfzoo.learning.trained_run.TrainedRun` takes it.
        what: a key of :data:`SETS`.
        overrides: what differs from the configuration of the training.
        predictions: a format, to write the predictions of the test sets in.
        device: where to compute; None: where it was trained.
        trust: whether what the run's recipe names may be imported.
        command: the arguments of ``tfzoo``.

    Raises:
        BadRun: no such run, or a damaged checkpoint.
        BadRecipe: a bad option, or one that would change the model.
        TfzooError: no such device, no test set, nothing that was scored, or
            predictions of a run that has no folder.
    """
    stage, run = SETS[what], TrainedRun(name)
    shown, folder = relative_path(run.path), run.folder
    if folder and not os.access(folder, os.W_OK):
        notify(f"{relative_path(folder)} may not be written: nothing is kept there")
        folder = None
    if predictions:
        check_predictions(stage, shown, folder)
    notify(f"checkpoint: {shown}")
    config = configuration(run, overrides, device, trust)
    data, task = config.make_data(), load(run, device=device)
    setattr(data, task.tokenizer_of_data, task.tokenizer)
    data.prepare_data()
    data.setup("test")
    if stage == "test" and not data.test_names:
        raise TfzooError(
            "the run's data has no test set: name one, such as --data.test FILE, or score its "
            f"validation text: tfzoo score {shown} validation"
        )
    from tfzoo.training.progress import progress_bar
    from tfzoo.training.train import launching
    from tfzoo.training.trainer import make_trainer

    trainer = make_trainer(config.recipe["trainer"], None, [progress_bar()])
    with launching(command):
        getattr(trainer, stage)(task, datamodule=data, verbose=False)
    if not (scores := logged_scores(trainer)):
        limit = f"trainer.limit_{'test' if stage == 'test' else 'val'}_batches"
        raise TfzooError(f"nothing was scored: leave {limit} out")
    intervals = task.intervals() if stage == "test" and not rank() else {}
    rows = format_scores(scores, intervals)
    if folder and not rank():
        section = {"ended": "completed", "scores": scores, "intervals": intervals}
        section |= {"checkpoint": str(run.path.absolute()), "peak_memory": peak_memory()}
        write_summary(folder, stage, section | environment(command))
        rows += [("picture", relative_path(path)) for path in task.save_figures(folder)]
        if predictions:
            rows += write_predictions(task, data, folder / "predictions", predictions)
    print_table(rows, f"{stage} {shown}")
    return 0


def check_predictions(stage: str, run: str, folder: Path | None) -> None:
    """Check ``--predictions`` before anything is scored."""
    if stage != "test":
        raise TfzooError("--predictions are those of test sets: leave validation out")
    if folder is None:
        raise TfzooError(
            f"{run} lies in no run's folder that may be written; use tfzoo predict {run} FILE"
        )


def configuration(
    run: TrainedRun, overrides: Sequence[Source], device: str | None, trust: bool
) -> Config:
    """The configuration of a run's training with overrides. Those that would change what it was
    trained with are refused before anything is read from there.
    """
    check_overrides(overrides, run.task)
    kept = run.entry["recipe"]
    trained = kept.get("trainer") or {}
    trainer = {key: trained[key] for key in ("precision", "accelerator") if key in trained}
    trainer |= {"devices": 1, **(trainer_device(device) if device else {})}
    own = {**kept, "task": run.entry["task"], "trainer": trainer, "checkpoint": {}}
    own.pop("options", None)  # a task's own, of no section
    source = Source(own, str(run.path), trust)
    if not any("data" in one.values for one in (source, *overrides)):
        raise BadRun(
            f"{relative_path(run.path)} names no data, as it was trained elsewhere or in Python. "
            "Name files, such as --data.root FOLDER, or stay in Python: trainer.test(task, data)"
        )
    config = Config.parse([source], overrides)
    run.entry["recipe"] = {**kept, **config.recipe}
    return config


def check_overrides(sources: Sequence[Source], task: Any) -> None:
    """Raise a TfzooError, naming the option or the file and its key, where something would change
    what a run was trained with, or goes unread.
    """
    of_training = {"model", "adapter", "checkpoint", *TOP, *task.training_settings}
    for source in sources:
        for path, _ in leaves(source.values):
            key = ".".join(path)
            if path[0] in of_training or key.startswith("data.tokenizer"):
                raise TfzooError(
                    f"{source.named(key)}: the run is trained; only how it is used and on what can "
                    "differ (data but its tokenizer, search, trainer)"
                )


def write_predictions(task: Any, data: Any, place: Path, form: str) -> Iterator[tuple[str, str]]:
    """Write a file for each test set: JSON lines, or tab-separated text; its name and path."""
    place.mkdir(exist_ok=True)
    for name in data.test_names:
        path, rows = place / f"{name}.{form}", task.predictions(data, name)
        columns = dict.fromkeys(key for row in rows for key in row)
        lines = ["\t".join(columns)] if form == "tsv" else []
        lines += [row_line(row, form, columns) for row in rows]
        with replacing(path) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
        yield "predictions", relative_path(path)
