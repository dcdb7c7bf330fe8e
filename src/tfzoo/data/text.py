"""Parallel text: which files it is in, and its pairs of lines, one after the other.

A line ends at a line feed and nowhere else: a lone carriage return, U+0085 or U+2028 stays inside its line, or two files
would fall out of step. One carriage return right before the line feed belongs to the line end, and a byte order mark before the first
line is dropped. Files are UTF-8, plain or ``.gz``.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tfzoo.errors import BadData, did_you_mean, listing

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ParallelText:
    """Pairs of lines of two files, or the two columns of one ``.tsv`` (then both paths are the same). Iterate as often as you like.

    Raises (while iterating):
        BadData: a file that is missing, empty, damaged or not UTF-8, files of unequal length, a row without two columns.
    """

    source: Path
    target: Path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        pairs = columns(self.source) if self.source == self.target else self._beside()
        count = 0
        for count, pair in enumerate(pairs, 1):  # noqa: B007  # used after the loop
            yield pair
        if count == 0:
            raise BadData(f"{self.source}: the file is empty; it needs one sentence per line")

    def _beside(self) -> Iterator[tuple[str, str]]:
        with closing(read_lines(self.source)) as sources, closing(read_lines(self.target)) as targets:
            for count, (source, target) in enumerate(zip_longest(sources, targets)):
                if source is None or target is None:
                    more = count + 1 + sum(1 for _ in (targets if source is None else sources))
                    long, short = (self.target, self.source) if source is None else (self.source, self.target)
                    raise BadData(f"{long} has {more:,} lines, {short} has {count:,} lines; each must be the translation of its neighbour")
                yield source, target


def columns(path: Path) -> Iterator[tuple[str, str]]:
    """The rows of a file of two columns, ``source<TAB>target``."""
    for number, line in enumerate(read_lines(path), 1):
        row = line.split("\t")
        if len(row) != 2:
            few = "a tab between source and target is missing" if len(row) < 2 else "a tab inside a sentence must become a space"
            raise BadData(f"{path}, line {number:,}: {len(row)} column{'s' * (len(row) != 1)} instead of 2, source<TAB>target; {few}")
        yield row[0], row[1]


def read_lines(path: Path) -> Generator[str, None, None]:
    """The lines of a UTF-8 file, plain or ``.gz``, without their ends.

    Raises:
        BadData: it cannot be read, or a line is not UTF-8; the message names the line.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode() if line.endswith(b"\n") else line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at place {error.start + 1}"
        raise BadData(f"{path}, line {number:,}: not UTF-8 ({byte}); convert the file: iconv -f LATIN1 -t UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadData(f"{path}: damaged after line {number:,} ({error}); fetch or compress it again") from None
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from None


def find_text(path: Path, source: str, target: str) -> ParallelText:
    """The text that ``path`` names: ``corpus/train`` for ``train.en`` and ``train.de`` (or ``train.tsv``), or a ``.tsv`` by its full name.

    Each file is taken plain or, where there is no such file, as ``.gz``.

    Raises:
        BadData: nothing there; the message says what was looked for and what lies beside it.
    """
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix == ".tsv":
        table = find_file(path, plain)
        if table is None:
            raise missing(path.parent, [plain.name])
        return ParallelText(table, table)
    names = [f"{path.name}.{language}" for language in (source, target)]
    found = [find_file(path.parent / name) for name in names]
    if found[0] is not None and found[1] is not None:
        return ParallelText(found[0], found[1])
    table = find_file(path.parent / f"{path.name}.tsv")
    if table is not None and found == [None, None]:
        return ParallelText(table, table)
    if not any(found) and find_file(path) is not None:
        stem = plain.with_suffix("")
        raise BadData(
            f"{path} is one file; give the path of both languages without its ending: {stem} for {stem}.{source} and {stem}.{target}"
        )
    lacking = [name for name, file in zip(names, found, strict=True) if file is None]
    raise missing(path.parent, lacking if any(found) else [*lacking, f"{path.name}.tsv"])


def find_tests(folder: Path, source: str, target: str) -> dict[str, ParallelText]:
    """Test sets by name: each ``test*`` in a folder that has both languages, or is a ``.tsv``."""
    names = set()
    for path in folder.glob("test*"):
        name = path.name.removesuffix(".gz")
        stem, _, ending = name.rpartition(".")
        if stem and ending in (source, target, "tsv"):
            names.add(stem)
    return {name: find_text(folder / name, source, target) for name in sorted(names)}


def find_file(*paths: Path) -> Path | None:
    """The first of these that is a file, each plain or as ``.gz``."""
    for path in paths:
        for name in (path, path.with_name(path.name + ".gz")):
            if name.is_file():
                return name
    return None


def missing(folder: Path, names: list[str]) -> BadData:
    """The error for files that are not in a folder."""
    wanted = " and ".join(names[:2]) + (f" (or {names[2]})" if len(names) > 2 else "")
    if not folder.is_dir():
        return BadData(f"no folder {folder}, where {wanted} should be")
    beside = [path.name for path in folder.iterdir() if path.is_file()]
    return BadData(f"no {wanted} in {folder}, plain or .gz.{did_you_mean(names[0], beside)} There: {listing(beside)}")
