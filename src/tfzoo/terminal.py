"""Print results on stdout and messages on stderr, from rank 0 only."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from tfzoo.runs.folder import rank

MOST_LINES = 6
"""The most lines of an error message."""


def notify(text: str) -> None:
    """Print a message on stderr."""
    if not rank():
        print(text, file=sys.stderr, flush=True)


def print_result(text: str) -> None:
    """Print a line of a result on stdout."""
    if not rank():
        print(text, flush=True)


def print_error(error: object) -> None:
    """Print the first lines of an error's message on stderr."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    notify(
        "\n       ".join([f"tfzoo: {lines[0]}", *(line.strip() for line in lines[1:MOST_LINES])])
    )


def format_number(value: float) -> str:
    """Format a number with four digits, and large whole numbers with all digits."""
    return f"{value:,.0f}" if value.is_integer() and abs(value) >= 1000 else f"{value:.4g}"


PERCENT = {"accuracy": 100, "macro_f1": 100, "calibration_error": 100, "exact_match": 1}
"""The scores that are printed as a percentage, and the factor that makes them one."""


def format_score(name: str, value: float) -> str:
    """Format a score: a share in percent, any other number with four digits.

    >>> format_score("accuracy", 0.98765), format_score("val/exact_match", 98.765)
    ('98.77 %', '98.77 %')
    """
    factor = PERCENT.get(name.rpartition("/")[2])
    return format_number(value) if factor is None else f"{factor * value:.4g} %"


def format_scores(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """One row for each data set: its name, and its scores in one line. The number of its items is
    left out.

    >>> format_scores({"test/loss": 1.5, "test/long/loss": 2.25, "test/items": 200.0})
    [('test', 'loss 1.5'), ('test/long', 'loss 2.25')]
    """
    sets: dict[str, list[str]] = {}
    for key in sorted(scores):
        name, _, score = key.rpartition("/")
        if score != "items":
            sets.setdefault(name, []).append(f"{score} {format_score(score, scores[key])}")
    return [(name, "  ".join(texts)) for name, texts in sorted(sets.items())]


def silence_lightning() -> None:
    """Silence Lightning's log messages and warnings. Call it after lightning is imported, because
    the import sets log levels.
    """
    os.environ.setdefault("WANDB_SILENT", "true")
    known = [name for name in logging.root.manager.loggerDict if name.startswith("lightning")]
    for logger in map(logging.getLogger, known):
        if logger.level != logging.WARNING:
            logger.setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers.*",
        ".*smaller than the logging interval.*",
        ".*Checkpoint directory .* exists and is not empty.*",
        ".*GPU available but not used.*",
        ".*LeafSpec.*",
        ".*barrier\\(\\).*",
        ".*Trying to infer the `batch_size`.*",
        ".*It is recommended to use .*sync_dist=True.*",
        ".*`isinstance\\(treespec.*",
        ".*found .* module\\(s\\) in eval mode.*",
        ".*your dataloader is not resumable.*",
        ".*using the WeightAveraging callback with a model that overrides.*",
    ):
        warnings.filterwarnings("ignore", message)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch|lightning|jsonargparse")
    warnings.filterwarnings(
        "ignore", category=DeprecationWarning, module="torch|lightning|jsonargparse"
    )


def print_table(rows: Iterable[tuple[str, str]], title: str) -> None:
    """Print two columns on stdout: a table in a terminal, otherwise plain lines."""
    if rank():
        return
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        drawn = Table("", "", title=title, show_header=False, title_justify="left")
        for row in rows:
            drawn.add_row(*row)
        Console().print(drawn)
        return
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    print("\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)]), flush=True)


def relative_path(path: Path) -> str:
    """Return a path relative to the working directory if it is inside it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
