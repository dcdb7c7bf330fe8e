"""Print results on stdout and messages on stderr, from rank 0; a refusal also from the rank that
alone refuses.
"""

import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tfzoo.base.processes import local_rank, rank

FORMATS = ("tsv", "jsonl")
"""How rows are written."""
MOST_LINES = 6
"""The most lines of an error message."""
ERROR_INDENT = len("tfzoo: ")
"""Where further lines of an error message begin."""
SECONDS_TO_BE_ENDED = 3.0
"""How long a process above rank 0 that refuses waits for its launcher to end it."""


def notify(text: str) -> None:
    """Print a message on stderr."""
    if not rank():
        print(text, file=sys.stderr, flush=True)


def print_result(text: str) -> None:
    """Print a result on stdout."""
    if not rank():
        print(text, flush=True)


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """A function that shows on stderr how far something is, if that is a terminal."""
    if rank() or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(title)) as status:
        yield lambda text: status.update(Text(f"{title}: {text}"))


def print_refusal(error: object) -> None:
    """Print the error that ends this process, once for all that a launcher has started: rank 0
    prints it. Where rank 0 has no error, the launcher, which ends all when one fails, does not end
    the process that has one: it prints it, with its rank.
    """
    if not rank():
        notify(error_lines(error))
        return
    launcher = os.getppid()
    with suppress(KeyboardInterrupt):  # which ends the wait
        time.sleep(SECONDS_TO_BE_ENDED + local_rank())
    if os.getppid() == launcher:
        print(error_lines(error, f"rank {rank()}: "), file=sys.stderr, flush=True)


def error_lines(error: object, before: str = "") -> str:
    """The first lines of an error's message, after ``tfzoo:`` and what stands ``before`` it. What a
    terminal would obey in names from files, such as an escape sequence, is written as ``\\x1b``.
    """
    printable = "".join(
        one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode()
        for one in str(error).strip()
    )
    lines = printable.split("\n") if printable else [type(error).__name__]
    start = "\n" + " " * ERROR_INDENT
    further = (line.strip() for line in lines[1:MOST_LINES])
    return start.join([f"tfzoo: {before}{lines[0]}", *further])


def silence_lightning() -> None:
    """Silence Lightning's messages and warnings, after its import, which sets log levels."""
    os.environ.setdefault("WANDB_SILENT", "true")
    known = [name for name in logging.root.manager.loggerDict if name.startswith("lightning")]
    for logger in map(logging.getLogger, known):
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
        ".*will save all targets and predictions in the buffer.*",
    ):
        warnings.filterwarnings("ignore", message)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch|lightning")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch|lightning")


def tsv_cell(value: object) -> str:
    """A value for tab-separated text, without tabs and line breaks; commas separate a list's."""
    if isinstance(value, list):
        return ",".join(map(tsv_cell, value))
    if isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False)
    return ("" if value is None else str(value)).translate(str.maketrans("\t\r\n", "   "))


def row_line(row: Mapping[str, object], form: str, columns: Iterable[str]) -> str:
    """A row as a line of one of :data:`FORMATS`; ``columns`` are those of ``tsv``."""
    if form == "jsonl":
        return json.dumps(row, ensure_ascii=False)
    return "\t".join(tsv_cell(row.get(key, "")) for key in columns)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table without frames, whose columns begin one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def print_table(rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a title and columns on stdout."""
    print_result("\n  ".join([title, *aligned(rows)]))


def relative_path(path: Path) -> str:
    """Return a path relative to the working directory if it is inside it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
