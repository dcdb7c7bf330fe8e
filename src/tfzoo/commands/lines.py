"""Text in, text out: what commands share that use a trained run on lines of a file or of standard
input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any

from tfzoo.commands.words import Words
from tfzoo.data.lines import decoded, read_lines
from tfzoo.errors import BadData, TfzooError
from tfzoo.runs import checkpoints
from tfzoo.terminal import notify, relative_path, silence_lightning

AT_ONCE = 20_000
"""Lines held in memory and sorted by length together."""

SPACES = str.maketrans("\t\r\n", "   ")

Progress = Callable[[int], object]
Use = Callable[[Sequence[str], "Progress | None"], Iterable[str]]
"""From some lines to the lines to write, in their order; told how many are finished."""


def words(command: str, description: str, epilog: str) -> Words:
    """The parser of such a command, with what all of them take."""
    parser = Words(command, description, epilog)
    parser.add_argument(
        "run", metavar="RUN", help="a run's folder (its best checkpoint) or a checkpoint"
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="text to read, plain or .gz; standard input when left out",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=4096,
        metavar="N",
        help="tokens of text in a batch (default: %(default)s)",
    )
    parser.add_argument("--output", metavar="PATH", help="write here instead of standard output")
    return parser


def open_task(given: Any, name: str, command: str) -> Any:
    """The trained task of RUN, on the accelerator where there is one; the words are checked before
    anything is loaded.
    """
    if given.max_tokens < 1:
        raise TfzooError("--max-tokens must be at least 1")
    path = checkpoints.resolve(given.run)
    if given.file and not Path(given.file).is_file():
        raise BadData(f"no file {given.file} to {command}")
    if not given.file and sys.stdin is None:
        raise BadData(f"standard input is closed; name a file to {command}")
    if (
        given.file
        and given.output
        and Path(given.output).exists()
        and Path(given.output).samefile(given.file)
    ):
        raise TfzooError(f"--output {given.output} is the file that is read; write to another")
    checkpoint = checkpoints.read(path, task=name)
    import torch

    from tfzoo.config.sections import task_class

    task = task_class(name)
    silence_lightning()
    notify(f"checkpoint: {relative_path(path)}")
    return task.from_checkpoint(checkpoint).to("cuda" if torch.cuda.is_available() else "cpu")


def pour(given: Any, use: Use) -> None:
    """Read lines, use them some thousands at a time, and write."""
    typed = not given.file and sys.stdin.isatty()  # then an answer follows each line
    lines = (
        read_lines(Path(given.file)) if given.file else decoded(sys.stdin.buffer, "standard input")
    )
    with writing(given.output) as out:
        drawn = sys.stderr.isatty() and not (typed or out.isatty())
        with Drawn() if drawn else nullcontext() as progress:
            while chunk := list(islice(lines, 1 if typed else AT_ONCE)):
                for line in use(chunk, progress):
                    out.write(f"{line}\n")
                out.flush()


@contextmanager
def writing(path: str | None) -> Iterator[IO[str]]:
    """A file to write, or standard output."""
    if path is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    try:
        with Path(path).open("w", encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise TfzooError(f"cannot write {path}: {error.strerror or error}") from None


def cell(value: Any) -> str:
    """A value between tabs: a tab or the end of a line inside it becomes a space."""
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return text.translate(SPACES)


class Drawn:
    """A counter of lines on stderr; told how many were finished."""

    def __enter__(self) -> Progress:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} lines"), TimeElapsedColumn())
        self.bar = Progress(
            *columns, console=Console(stderr=True), transient=True, redirect_stdout=False
        )
        self.bar.add_task("lines", total=None)
        self.bar.start()
        return lambda count: self.bar.advance(self.bar.task_ids[0], count)

    def __exit__(self, *error: object) -> None:
        self.bar.stop()
