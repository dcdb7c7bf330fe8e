"""Parallel text: which files it is in, and its pairs of lines, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tfzoo.data.lines import find_file, missing, read_lines, stamp
from tfzoo.data.table import FORMS, Table
from tfzoo.errors import BadData


@dataclass(frozen=True)
class ParallelText:
    """Pairs of lines of two files. Iterate as often as you like.

    Raises (while iterating):
        BadData: a file that is missing, empty, damaged or not UTF-8, files of unequal length.
    """

    source: Path
    target: Path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        count = 0
        with (
            closing(read_lines(self.source)) as sources,
            closing(read_lines(self.target)) as targets,
        ):
            for source, target in zip_longest(sources, targets):
                if source is None or target is None:
                    more = count + 1 + sum(1 for _ in (targets if source is None else sources))
                    long, short = (
                        (self.target, self.source) if source is None else (self.source, self.target)
                    )
                    raise BadData(
                        f"{long} has {more:,} lines, {short} has {count:,} lines; line n of one must belong to line n of the other"
                    )
                yield source, target
                count += 1
        if count == 0:
            raise BadData(f"{self.source}: the file is empty; it needs one sentence per line")

    @property
    def path(self) -> str:
        """Both files, for a message."""
        return f"{self.source} and {self.target}"

    def stamp(self) -> str | None:
        """What tells that the files have not changed, if anything does."""
        return stamp(self.source, self.target)

    def place(self, row: int) -> str:
        """Where a pair stands, for a message."""
        return f"{self.path}, line {row + 1:,}"


def find_text(
    path: Path,
    first: str,
    second: str,
    columns: tuple[str, str] | None = None,
    *,
    header: bool = False,
) -> ParallelText | Table:
    """The text that ``path`` names: ``corpus/train`` for ``train.en`` and ``train.de``, or for a
    table such as ``train.tsv``.

    ``first`` and ``second`` are the endings of the two files and, unless there are other
    ``columns``, the columns of the table (``.tsv``, ``.csv``, ``.jsonl``, ``.parquet``), which may
    also be given by its full name. Each file is taken plain or, where there is no such file, as
    ``.gz``. Without ``header``, a ``.tsv`` may be without a row of names.

    Raises:
        BadData: nothing there; the message says what was looked for and what lies beside it.
    """
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix in FORMS:
        table = find_file(path, plain)
        if table is None:
            raise missing(path.parent, [plain.name])
        return Table(table, columns or (first, second), header=header)
    names = [f"{path.name}.{ending}" for ending in (first, second)]
    found = [find_file(path.parent / name) for name in names]
    if found[0] is not None and found[1] is not None:
        return ParallelText(found[0], found[1])
    tables = [
        table for ending in FORMS if (table := find_file(path.parent / f"{path.name}{ending}"))
    ]
    if len(tables) > 1:
        raise BadData(
            f"{path.parent} has {' and '.join(table.name for table in tables)}: keep one of them, or give the full path of one"
        )
    if tables and found == [None, None]:
        return Table(tables[0], columns or (first, second), header=header)
    if not any(found) and find_file(path) is not None:
        stem = plain.with_suffix("")
        raise BadData(
            f"{path} is one file; give the path of both without its ending: {stem} for {stem}.{first} and {stem}.{second}"
        )
    lacking = [name for name, file in zip(names, found, strict=True) if file is None]
    raise missing(path.parent, lacking, "" if any(found) else f"{path.name}{', '.join(FORMS)}")


def find_tests(
    folder: Path,
    first: str,
    second: str,
    columns: tuple[str, str] | None = None,
    *,
    header: bool = False,
) -> dict[str, ParallelText | Table]:
    """Test sets by name: each ``test*`` in a folder that has both files, or is a table."""
    names = set()
    for path in folder.glob("test*"):
        name = path.name.removesuffix(".gz")
        stem, dot, ending = name.rpartition(".")
        if stem and (ending in (first, second) or dot + ending in FORMS):
            names.add(stem)
    return {
        name: find_text(folder / name, first, second, columns, header=header)
        for name in sorted(names)
    }
