"""tfzoo translate RUN [FILE]: text in, translations out."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from tfzoo.commands.output import near, quiet, say
from tfzoo.commands.words import Words
from tfzoo.errors import BadData, TfzooError
from tfzoo.runs import checkpoints

AT_ONCE = 20_000
"""Lines held in memory and sorted by length together."""

EPILOG = """\
One line is written for each line read, in order, also for an empty one. With --n-best N there are N lines for each, best first.
With --scores each begins with its score (log probability over the length penalty) and a tab.
"""


def run(args: list[str]) -> int:
    """Translate a file or standard input."""
    words = Words("translate", "Translate lines of text with a trained run.", EPILOG)
    words.add_argument("run", metavar="RUN", help="a run's folder (its best checkpoint) or a checkpoint")
    words.add_argument("file", metavar="FILE", nargs="?", help="text to read, plain or .gz; standard input when left out")
    words.add_argument("--beam", type=int, metavar="N", help="hypotheses kept at a time; 1 is greedy; default: the recipe's")
    words.add_argument("--length-penalty", type=float, metavar="A", help="alpha of the length penalty; default: the recipe's")
    words.add_argument("--n-best", type=int, metavar="N", help="translations of each line, at most as many as the beam")
    words.add_argument("--scores", action="store_true", help="write scores too")
    words.add_argument("--max-tokens", type=int, default=4096, metavar="N", help="source tokens of a batch (default: %(default)s)")
    words.add_argument("--output", metavar="PATH", help="write here instead of standard output")
    given = words.read(args)
    if given is None:
        return 0
    if given.max_tokens < 1:
        raise TfzooError("--max-tokens must be at least 1")
    path = checkpoints.resolve(given.run)
    source = given.file and Path(given.file)
    if source and not source.is_file():
        raise BadData(f"no file {given.file} to translate")
    checkpoint = checkpoints.read(path, task="translation")
    from tfzoo.tasks.translation import TranslationTask

    quiet()
    say(f"checkpoint: {near(path)}")
    task = TranslationTask.from_checkpoint(checkpoint)
    how = {"beam": given.beam, "length_penalty": given.length_penalty, "n_best": given.n_best or 1}
    if given.beam is None and (given.n_best or 1) > task.search.beam:
        how["beam"] = given.n_best
    task.search = replace(task.search, **{key: value for key, value in how.items() if value is not None})
    with _reading(source) as stream, _writing(given.output) as out:
        _translate(task, stream, out, given.scores, given.max_tokens, str(source or "standard input"))
    return 0


def _translate(task: Any, stream: IO[bytes], out: IO[str], scores: bool, max_tokens: int, name: str) -> None:
    import torch

    task.to("cuda" if torch.cuda.is_available() else "cpu")
    lines = _lines(stream, name)
    with _progress() as progress:
        while chunk := list(islice(lines, AT_ONCE)):
            for best in task.translations(chunk, max_tokens=max_tokens, progress=progress):
                for one in best:
                    out.write(f"{one.score:.4f}\t{one.text}\n" if scores else f"{one.text}\n")
            out.flush()


def _lines(stream: IO[bytes], name: str) -> Iterator[str]:
    """Lines as editors count them: a lone carriage return or a Unicode separator ends none."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise BadData(f"{name}, line {number}: not UTF-8 (byte {error.start + 1})") from None


def _reading(source: Path | None) -> Any:
    if source is None:
        return nullcontext(sys.stdin.buffer)
    return gzip.open(source) if source.suffix == ".gz" else source.open("rb")


def _writing(path: str | None) -> Any:
    if path is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")
        return nullcontext(sys.stdout)
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise TfzooError(f"cannot write {path}: {error.strerror}") from None


def _progress() -> Any:
    """Told how many lines were finished; draws only where stderr is a terminal and text is not typed in."""
    if not sys.stderr.isatty() or sys.stdin.isatty():
        return nullcontext(None)
    return Drawn()


class Drawn:
    """A counter of lines on stderr."""

    def __enter__(self) -> Any:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} lines"), TimeElapsedColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self.bar.add_task("lines", total=None)
        self.bar.start()
        return lambda count: self.bar.advance(self.bar.task_ids[0], count)

    def __exit__(self, *error: object) -> None:
        self.bar.stop()
