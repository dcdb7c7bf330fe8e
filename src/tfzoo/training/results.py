"""The table printed at the end of a training."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Any

import lightning.pytorch as L

from tfzoo.base.scores import format_score, format_scores
from tfzoo.base.terminal import relative_path
from tfzoo.data.pairs import TAB, parts
from tfzoo.runs import checkpoints
from tfzoo.training.pictures import CURVES
from tfzoo.training.progress import timers
from tfzoo.training.training_run import TrainingRun


def table_rows(run: TrainingRun, args: list[str]) -> list[tuple[str, str]]:
    """Return the rows of the table that is printed after training; ``args`` are the arguments of
    ``tfzoo fit``.
    """
    section = run.fit_section()
    rows = [
        ("steps", f"{section['steps']:,}"),
        ("time", f"{timedelta(seconds=round(section['seconds']))}"),
    ]
    if time_is_up(run.trainer):
        rows.append(("cut by", "trainer.max_time, before another limit was reached"))
    if section["skipped"]:
        rows.append(("skipped, not finite", f"{section['skipped']:,}"))
    if "tokens_per_second" in section:
        rows.append(("tokens per second", f"{section['tokens_per_second']:,}"))
    rows += [(f"best {name}", format_score(name, value)) for name, value in section["best"].items()]
    if not section["scores"]:
        rows.append(("validation", "none took place; trainer.val_check_interval sets how often"))
    rows += format_scores(run.test_scores)
    folder, command = relative_path(run.folder), run.task.command
    if (run.folder / CURVES).exists():
        rows.append(("curves", relative_path(run.folder / CURVES)))
    if run.checkpoint:
        rows.append(("checkpoint", relative_path(run.checkpoint)))
        rows.append((command, f"{written(example_text(run.data))} | tfzoo {command} {folder}"))
    if (run.last.folder / checkpoints.LAST).exists():
        rows.append(("go on", resume_command(args, folder)))
    return rows


def example_text(data: Any) -> str:
    """Return a validation text that can stand in double quotes in a shell."""
    texts = data.val_dataloader().dataset[range(1)].source_text
    return next((text for text in texts if text.strip() and not set(text) & set('"$`\\!')), "text")


def written(text: str) -> str:
    """The command that writes a text, in which a pair has its tab.

    >>> written("one two"), written("a\\tb")
    ('echo "one two"', 'printf "%s\\\\t%s\\\\n" "a" "b"')
    """
    if TAB not in text:
        return f'echo "{text}"'
    first, second = parts(text)
    return rf'printf "%s\t%s\n" "{first}" "{second}"'


def time_is_up(trainer: L.Trainer) -> bool:
    """Whether training ended because ``trainer.max_time`` was over."""
    left = [timer.time_remaining() for timer in timers(trainer)]
    return any(seconds is not None and seconds <= 0 for seconds in left)


def resume_command(args: list[str], folder: str) -> str:
    """Return the command that resumes a run."""
    has_folder = any(arg == "--run" or arg.startswith("--run=") for arg in args)
    return shlex.join(["tfzoo", "fit", *args, *([] if has_folder else ["--run", folder])])
