"""tfzoo predict RUN [FILE]: apply a trained run to lines of text."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tfzoo.base.allocator import keep_freed_memory
from tfzoo.base.terminal import notify, progress, relative_path, silence_lightning
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.data.table import decoded, read_lines
from tfzoo.errors import BadData, BadRun, TfzooError
from tfzoo.runs import files
from tfzoo.runs.run import Run
from tfzoo.training.device import find_device

if TYPE_CHECKING:
    from tfzoo.learning.task import Reading

TEXT = """\
Apply a trained run to each line of text: translate it, name its class, continue it, as its task is.
`tfzoo predict RUN --help` has the options of the run's task."""
CHUNK = 20_000
"""The most lines that are held in memory, and sorted by length, at a time."""


class PredictParser(CommandParser):
    """The arguments of the command, with those of the task of the run that it names first."""

    def parse(self, words: Sequence[str]) -> Namespace:
        if not words or words[0] in ("-h", "--help"):
            return super().parse(words)
        if words[0].startswith("-"):
            raise TfzooError("RUN comes first: tfzoo predict RUN [FILE] (tfzoo predict --help)")
        trained = Run(words[0])
        trained.task.add_arguments(self)
        given = super().parse(words)
        given.trained = trained
        return given


def run(given: Namespace) -> int:
    """Apply a run to a file or to standard input."""
    check(given)
    given.trained.task.check_arguments(given)
    process_lines(given, load_task(given.trained, given.device))
    return 0


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = PredictParser("predict", TEXT)
    parser.add_run()
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
    parser.add_argument("--overwrite", action="store_true", help="replace the file at --output")
    parser.add_device()
    return parser


def check(given: Namespace) -> None:
    """Check the arguments before the weights are read."""
    if given.max_tokens < 1:
        raise TfzooError("--max-tokens must be at least 1")
    if given.file and not os.path.isfile(given.file):  # pathlib raises where a name is too long
        piped = f"{shlex.join(['echo', given.file])} | tfzoo predict {given.run}"
        hint = "" if Path(given.file).suffix else f". A text is piped in: {piped}"
        raise BadData(f"no file {given.file}{hint}")
    if not given.file and sys.stdin is None:
        raise BadData("standard input is closed: name a file")
    if (
        given.file
        and given.output
        and Path(given.output).exists()
        and Path(given.output).samefile(given.file)
    ):
        raise TfzooError(f"--output {given.output} is the file that is read; write to another")
    if given.output:
        files.check_output(Path(given.output), given.overwrite)


def load_task(trained: Run, device: str | None, name: str | None = None) -> Any:
    """Load the task of a run on a device. It must be the task ``name`` if one is given."""
    place = find_device(device)
    keep_freed_memory()
    notify(f"checkpoint: {relative_path(trained.path)}")  # before imports that take seconds
    if name is not None:
        trained.check_task(name)
    cls = trained.task  # its import sets what is silenced
    silence_lightning()
    task = trained.load(cls).to(place)
    broken = (name for name, one in task.named_parameters() if not one.isfinite().all())
    if part := next(broken, ""):
        raise BadRun(
            f"{relative_path(trained.path)}: {part} is not finite: its training has diverged"
        )
    return task


def process_lines(given: Namespace, task: Any) -> None:
    """Read lines in chunks, apply the task to each, and write the results, below its header."""
    from tfzoo.data.batches import truncation
    from tfzoo.learning.task import Part

    done, truncated = [0], list[tuple[int, int]]()

    def count(lines: int) -> None:
        done[0] += lines
        show(f"{done[0]:,}")

    interactive = not given.file and sys.stdin.isatty()  # then each line is a chunk
    lines = (
        read_lines(Path(given.file)) if given.file else decoded(sys.stdin.buffer, "standard input")
    )
    with open_output(given.output) as out:
        if (header := task.output_header(given)) is not None:
            out.write(f"{header}\n")
        seen = interactive or out.isatty()
        with nullcontext(lambda text: None) if seen else progress("lines") as show:
            reading: Reading = {
                "max_tokens": given.max_tokens,
                "progress": count,
                "on_truncated": lambda rows, tokens: truncated.append((len(rows), tokens)),
            }
            while chunk := list(islice(lines, 1 if interactive else CHUNK)):
                for line in task.output_lines(chunk, given, **reading):
                    if isinstance(line, Part):
                        out.write(line)
                        out.flush()
                    else:
                        out.write(f"{line}\n")
                out.flush()
    if truncated:
        notify(truncation(sum(rows for rows, _ in truncated), truncated[-1][1]))


@contextmanager
def open_output(path: str | None) -> Iterator[IO[str]]:
    """Open standard output, or a file, which gets its name when all is written."""
    if path is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    place = Path(path).resolve()  # of a link, what it leads to
    files.remove_leftovers(place.parent, place.name)
    try:
        with files.replacing(place) as temporary, temporary.open("w", encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise TfzooError(f"cannot write {path}: {error.strerror or error}") from None
