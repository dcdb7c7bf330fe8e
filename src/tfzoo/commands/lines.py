"""Text in, text out: what commands share that use a trained run on lines of a file or of standard input."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, Any

from tfzoo.commands.output import near, quiet, say
from tfzoo.commands.words import Words
from tfzoo.errors import BadData, TfzooError
from tfzoo.runs import checkpoints

AT_ONCE = 20_000
"""Lines held in memory and sorted by length together."""

SPACES = str.maketrans("\t\r\n", "   ")

Progress = Callable[[int], object]
Use = Callable[[Sequence[str], "Progress | None"], Iterable[str]]
"""From some lines to the lines to write, in their order; told how many are finished."""


def words(command: str, description: str, epilog: str) -> Words:
    """The parser of such a command, with what all of them take."""
    parser = Words(command, description, epilog)
    parser.add_argument("run", metavar="RUN", help="a run's folder (its best checkpoint) or a checkpoint")
    parser.add_argument("file", metavar="FILE", nargs="?", help="text to read, plain or .gz; standard input when left out")
    parser.add_argument("--max-tokens", type=int, default=4096, metavar="N", help="tokens of text in a batch (default: %(default)s)")
    parser.add_argument("--output", metavar="PATH", help="write here instead of standard output")
    return parser


def open_task(given: Any, name: str, command: str) -> Any:
    """The trained task of RUN, on the accelerator where there is one; the words are checked before anything is loaded."""
    if given.max_tokens < 1:
        raise TfzooError("--max-tokens must be at least 1")
    path = checkpoints.resolve(given.run)
    if given.file and not Path(given.file).is_file():
        raise BadData(f"no file {given.file} to {command}")
    checkpoint = checkpoints.read(path, task=name)
    import torch

    from tfzoo.commands.sections import task_class

    task = task_class(name)
    quiet()
    say(f"checkpoint: {near(path)}")
    return task.from_checkpoint(checkpoint).to("cuda" if torch.cuda.is_available() else "cpu")


def pour(given: Any, use: Use) -> None:
    """Read lines, use them some thousands at a time, and write."""
    source = given.file and Path(given.file)
    with reading(source) as stream, writing(given.output) as out, drawing() as progress:
        lines = read(stream, str(source or "standard input"))
        while chunk := list(islice(lines, AT_ONCE)):
            for line in use(chunk, progress):
                out.write(f"{line}\n")
            out.flush()


def read(stream: IO[bytes], name: str) -> Iterator[str]:
    """Lines as editors count them: a lone carriage return or a Unicode separator ends none."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise BadData(f"{name}, line {number}: not UTF-8 (byte {error.start + 1})") from None


def reading(source: Path | None) -> Any:
    """The bytes of a file, unpacked where it is ``.gz``, or of standard input."""
    if source is None:
        return nullcontext(sys.stdin.buffer)
    return gzip.open(source) if source.suffix == ".gz" else source.open("rb")


def writing(path: str | None) -> Any:
    """A file to write, or standard output."""
    if path is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")
        return nullcontext(sys.stdout)
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise TfzooError(f"cannot write {path}: {error.strerror}") from None


def cell(value: Any) -> str:
    """A value between tabs: a tab or the end of a line inside it becomes a space."""
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return text.translate(SPACES)


def drawing() -> Any:
    """Told how many lines were finished; draws only where stderr is a terminal and text is not typed in."""
    if not sys.stderr.isatty() or sys.stdin.isatty():
        return nullcontext(None)
    return Drawn()


class Drawn:
    """A counter of lines on stderr."""

    def __enter__(self) -> Progress:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} lines"), TimeElapsedColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self.bar.add_task("lines", total=None)
        self.bar.start()
        return lambda count: self.bar.advance(self.bar.task_ids[0], count)

    def __exit__(self, *error: object) -> None:
        self.bar.stop()
