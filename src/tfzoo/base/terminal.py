"""Print results on stdout and messages on stderr, from rank 0; a refusal also from the rank that
alone refuses.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from tfzoo.base.ranks import local_rank, rank

MOST_LINES = 6
"""The most lines of an error message."""
ERROR_INDENT = len("tfzoo: ")
"""Where further lines of an error message begin."""
SOURCE_WIDTH = 84
"""Lines of docstrings end before this column and the next word's, once their indentation is off."""
ITEM = re.compile(r"\s+[\w., ]+: ")
"""What stands before the description of an item of a list."""
TABLE_ROW = re.compile(r"\s*\S+(?: \S+)*(?:\s{2,}(?=\S))")
"""The first column of a table, with the space after it."""
SECONDS_TO_BE_ENDED = 3.0
"""How long a process above rank 0 that refuses waits for its launcher to end it."""


def notify(text: str) -> None:
    """Print a message on stderr."""
    if not rank():
        print(wrap(text, sys.stderr), file=sys.stderr, flush=True)


def notify_from_any_rank(text: str) -> None:
    """Print a message on stderr whatever the rank: of the process that writes files or holds a
    folder.
    """
    print(f"tfzoo: {text}", file=sys.stderr, flush=True)


def print_result(text: str) -> None:
    """Print a line of a result on stdout."""
    if not rank():
        print(wrap(text, sys.stdout), flush=True)


def print_verbatim(text: str) -> None:
    """Print on stdout what is to be copied as it is, such as YAML."""
    if not rank():
        print(text, flush=True)


def columns(stream: TextIO) -> int | None:
    """The width of the terminal that a stream writes to; None if it is no terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrap(text: str, stream: TextIO) -> str:
    """The text in lines that fit into the terminal. What is left of a line stands below the last of
    its columns, which two spaces divide. A word that is longer than a line, such as a path, stays
    whole.
    """
    width = columns(stream)
    if width is None:
        return text
    lines = []
    for line in text.split("\n"):
        if line.startswith(">>>"):
            lines.append(line)
            continue
        table, item = TABLE_ROW.match(line), ITEM.match(line)
        hang = len(line) - len(line.lstrip()) + (2 if item else 0)
        if table and table.end() <= width // 2:
            hang = table.end()
        lines += textwrap.wrap(
            line,
            max(width, hang + 20),
            subsequent_indent=" " * (ERROR_INDENT if line.startswith("tfzoo: ") else hang),
            break_long_words=False,
            break_on_hyphens=False,
        ) or [line]
    return "\n".join(lines)


def reflow(text: str) -> str:
    """The text with paragraphs of one line each: a line whose next word would not have fitted goes
    on in the next one.
    """
    lines: list[str] = []
    last = ""
    for line in text.split("\n"):
        word = (line.split() or [""])[0]
        deeper = len(line) - len(line.lstrip()) >= len(last) - len(last.lstrip())
        if word and deeper and len(last) + 1 + len(word) > SOURCE_WIDTH and ">>>" not in last:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
        last = line
    return "\n".join(lines)


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
    notify(error_lines(error))


def print_refusal(error: object) -> None:
    """Print the error that ends this process, once for all that a launcher has started: rank 0
    prints it. Where rank 0 has no error, the process that has one prints it with its rank.

    A launcher that sees one process fail ends the others. So one above rank 0 that is not ended
    soon is alone with its error, and of several on a machine the first to print it ends the rest.
    """
    if not rank():
        print_error(error)
        return
    launcher = os.getppid()
    with suppress(KeyboardInterrupt):  # which ends the wait
        time.sleep(SECONDS_TO_BE_ENDED + local_rank())
    if os.getppid() == launcher:
        print(wrap(error_lines(error, f"rank {rank()}: "), sys.stderr), file=sys.stderr, flush=True)


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
        ".*will save all targets and predictions in the buffer.*",
    ):
        warnings.filterwarnings("ignore", message)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch|lightning")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch|lightning")


def tsv_cell(value: object) -> str:
    """Format a value for tab-separated text: tabs and line breaks become spaces, and commas stand
    between the items of a list.
    """
    if isinstance(value, list):
        return ",".join(map(tsv_cell, value))
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return text.translate(str.maketrans("\t\r\n", "   "))


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
