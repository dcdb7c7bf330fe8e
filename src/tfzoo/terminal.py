"""Print results on stdout and messages on stderr, from rank 0 only."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


@contextmanager
def notice_if_replaced(path: Path) -> Iterator[None]:
    """Say on stderr that the ``with`` block has replaced a file by one with other content."""
    before = content(path)
    yield
    if before is not None and content(path) != before:
        notify(f"{relative_path(path)} replaced an earlier file; --output FILE writes another")


def content(path: Path) -> bytes | None:
    """The content of a file; None if there is none, or it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def print_error(error: object) -> None:
    """Print the first lines of an error's message on stderr."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    notify(
        "\n       ".join([f"tfzoo: {lines[0]}", *(line.strip() for line in lines[1:MOST_LINES])])
    )


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
