"""Two parallel files of lines, and finding the files or the table of a split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tfzoo.data.lines import find_file, missing, read_lines, stat_fingerprint
from tfzoo.data.table import FORMS, Table
from tfzoo.errors import BadData, BadOption


@dataclass(frozen=True)
class ParallelText:
    """The pairs of lines of two files. It can be iterated several times.

    Raises (while iterating):
        BadData: a file is missing, empty, damaged or not UTF-8, or the files differ in length.
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
                        f"{long} has {more:,} lines, {short} has {count:,} lines; "
                        "line n of one must belong to line n of the other"
                    )
                yield source, target
                count += 1
        if count == 0:
            raise BadData(f"{self.source}: the file is empty; it needs one sentence per line")

    @property
    def path(self) -> str:
        """Both files, for an error message."""
        return f"{self.source} and {self.target}"

    def stat_fingerprint(self) -> str | None:
        """See :func:`tfzoo.data.lines.stat_fingerprint`."""
        return stat_fingerprint(self.source, self.target)

    def location(self, row: int) -> str:
        """Files and line of a pair, for an error message."""
        return f"{self.path}, line {row + 1:,}"


def find_text(
    path: Path,
    first: str,
    second: str,
    columns: tuple[str, str] | None = None,
    *,
    header: bool = False,
) -> ParallelText | Table:
    """The text of a split: ``corpus/train`` means the files ``train.en`` and ``train.de``, or a
    table such as ``train.tsv``.

    ``first`` and ``second`` are the endings of the two files. ``columns`` are the columns of a
    table (``.tsv``, ``.csv``, ``.jsonl``, ``.parquet``), by default the endings; its path may also
    be given with its ending. Each file is taken plain or, if there is no such file, as ``.gz``.
    Without ``header``, the first row of a ``.tsv`` need not name the columns.

    Raises:
        BadData: there is no such file; the message says what was looked for and what is there.
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
        names = [table.name for table in tables]
        raise BadData(
            f"{path.parent} has {' and '.join(names)}: keep one of them, "
            "or give the full path of one"
        )
    if tables and found == [None, None]:
        return Table(tables[0], columns or (first, second), header=header)
    if not any(found) and find_file(path) is not None:
        stem = plain.with_suffix("")
        raise BadData(
            f"{path} is one file; give the path of both without its ending: {stem} for "
            f"{stem}.{first} and {stem}.{second}"
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
    """The test sets in a folder, by name: each ``test*`` that is a pair of files or a table."""
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


def named_tests(
    test: str | Mapping[str, str] | None, endings: Sequence[str]
) -> Mapping[str, str] | None:
    """The test sets of ``data.test``, by name. A single path gets the name of its file.

    Raises:
        BadOption: a name that another split has, or that cannot be part of a file name: files of
            predictions are named after test sets.
    """
    if isinstance(test, str):
        name = test.rstrip("/").rpartition("/")[2].removesuffix(".gz")
        for ending in endings:
            name = name.removesuffix(ending)
        test = {name: test}
    for name in test or ():
        if name in ("train", "val") or not re.fullmatch(r"\w[\w .+-]*", name):
            raise BadOption(
                f"data.test: a test set cannot be named {name!r}; give it a name: "
                "data.test: {NAME: path}, NAME of letters, digits, - _ ."
            )
    return test
