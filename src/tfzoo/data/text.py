"""Files of lines, one or two parallel ones, and finding the files or the table of a split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from glob import glob
from itertools import chain, zip_longest
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tfzoo.data.code_fingerprint import code_fingerprint
from tfzoo.data.lines import find_file, missing, read_lines, stat_fingerprint
from tfzoo.data.pairs import Pair
from tfzoo.data.remote import addresses, file_name, is_address, local_copy
from tfzoo.data.table import FORMS, Table, Words
from tfzoo.errors import BadData, BadOption


@dataclass(frozen=True)
class TextFormat:
    """How the text of a split stands in files.

    Args:
        endings: those of two files of lines, such as ``en`` and ``de``; of one, where both are the
            same.
        columns: those of a table; None: the endings.
        header: whether the first row of a ``.tsv`` has to name the columns.
        delimiter: what separates the columns of a ``.csv``.
    """

    endings: tuple[str, str]
    columns: tuple[str, str] | None = None
    header: bool = False
    delimiter: str = ","

    def table(self, path: Path) -> Table:
        """The table at a path."""
        columns = self.columns or self.endings
        return Table(path, columns, header=self.header, delimiter=self.delimiter)


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


@dataclass(frozen=True)
class PlainText:
    """The lines of one file, as a table of one column has them: each as both cells of a row. It can
    be iterated several times.

    Raises (while iterating):
        BadData: the file is missing, damaged or not UTF-8.
    """

    path: Path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((line, line) for line in read_lines(self.path))

    def stat_fingerprint(self) -> str | None:
        """See :func:`tfzoo.data.lines.stat_fingerprint`."""
        return stat_fingerprint(self.path)

    def location(self, row: int) -> str:
        """File and line, for an error message."""
        return f"{self.path}, line {row + 1:,}"


def find_text(path: Path, form: TextFormat) -> ParallelText | PlainText | Table:
    """The text of a split: ``corpus/train`` means the files ``train.en`` and ``train.de``, or a
    table such as ``train.tsv`` (``.csv``, ``.jsonl``, ``.parquet``), whose path may also be given
    with its ending. Where both endings are one, it means the lines of one file: ``train.txt``, or
    ``train`` itself. Each file is taken plain or, if there is no such file, as ``.gz``.

    Raises:
        BadData: there is no such file; the message says what was looked for and what is there.
    """
    first, second = form.endings
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix in FORMS:
        table = find_file(path, plain)
        if table is None:
            raise missing(path.parent, [plain.name])
        return form.table(table)
    if plain.suffix == ".json" and path.is_file():
        raise BadData(
            f"{path}: rows are read from JSON lines, one object a line, named {plain.stem}.jsonl. "
            f"To convert a list of objects: jq -c '.[]' {plain.name} > {plain.stem}.jsonl"
        )
    if isinstance(first, Words) and (words := find_file(path)) is not None:
        return form.table(words)
    if first == second:
        lines = find_file(path, path.with_name(f"{path.name}.{first}"))
        if lines is not None:
            return PlainText(lines)
    pairs = isinstance(first, Pair)  # which are in tables alone
    names = [f"{path.name}.{ending}" for ending in (first, second)]
    found = [None, None] if pairs else [find_file(path.parent / name) for name in names]
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
        return form.table(tables[0])
    if path.is_dir() and not any(found):
        raise BadData(
            f"{path} is a folder; data.root takes one with train in it, and a pattern names the "
            f"files in it: {path}/*.{'txt' if first == second else 'tsv'}"
        )
    if pairs:
        raise missing(path.parent, [" or ".join(f"{path.name}{ending}" for ending in FORMS)])
    if not any(found) and find_file(path) is not None:
        stem = plain.with_suffix("")
        raise BadData(
            f"{path} is no table by its ending, {', '.join(FORMS)}; of two files of lines, give "
            f"the path of both without its ending: {stem} for {stem}.{first} and {stem}.{second}"
        )
    lacking = [name for name, file in zip(names, found, strict=True) if file is None]
    lacking = list(dict.fromkeys(lacking))
    raise missing(path.parent, lacking, "" if any(found) else f"{path.name}{', '.join(FORMS)}")


@dataclass(frozen=True)
class JoinedText:
    """The rows of several texts, one text after the other."""

    parts: tuple[ParallelText | PlainText | Table, ...]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return chain.from_iterable(self.parts)

    @property
    def path(self) -> str:
        """The first of them, for an error message."""
        return f"{self.parts[0].path} and {len(self.parts) - 1} more"

    def stat_fingerprint(self) -> str | None:
        """See :func:`tfzoo.data.lines.stat_fingerprint`."""
        known = [part.stat_fingerprint() for part in self.parts]
        code = [code_fingerprint(type(part)) for part in self.parts]
        return None if None in known else "\n\n".join([*map(str, known), *code])

    def location(self, row: int) -> str:
        """File and line of a row, for an error message."""
        for part in self.parts[:-1]:
            rows = sum(1 for _ in part)
            if row < rows:
                return part.location(row)
            row -= rows
        return self.parts[-1].location(row)


def find_texts(
    root: Path, paths: Sequence[str], form: TextFormat
) -> ParallelText | PlainText | Table | JoinedText:
    """The text of a split that is given by paths, relative to ``root``: each as for
    :func:`find_text`, an address, or a pattern such as ``part*.tsv`` or ``part*`` (for
    ``part1.en``, ``part1.de`` and so on), whose files are taken in the order of their names.

    Raises:
        BadData: there is no such file.
    """
    texts = [text_of(root, path, form) for path in files_of(root, paths, form)]
    return texts[0] if len(texts) == 1 else JoinedText(tuple(texts))


def files_of(root: Path, paths: Sequence[str], form: TextFormat) -> list[str]:
    """The paths and addresses that some stand for, patterns among them: each of a table, of a file
    of lines, or of two files without their endings.
    """
    first, second = form.endings
    ending = "" if first == second or isinstance(first, Words) else first
    return [
        found
        for path in paths
        for found in (
            addresses(path, "" if is_table(path) else ending)
            if is_address(path)
            else matching(root, path, ending)
        )
    ]


def is_table(path: str) -> bool:
    """Whether a path or an address has the ending of a table."""
    return Path(file_name(path).removesuffix(".gz")).suffix in FORMS


def text_of(
    root: Path, path: str, form: TextFormat, quiet: bool = False
) -> ParallelText | PlainText | Table:
    """The text of one of :func:`files_of`; at an address, its copy in the cache, which is made
    without a word if ``quiet``.
    """
    return remote_text(path, form, quiet) if is_address(path) else find_text(root / path, form)


def remote_text(address: str, form: TextFormat, quiet: bool) -> ParallelText | PlainText | Table:
    """The text at an address, as for :func:`find_text`; only the file that is named is looked for.

    Raises:
        BadOption, BadData: it cannot be read.
    """
    first, second = form.endings
    if is_table(address) or isinstance(first, Words):
        return form.table(local_copy(address, quiet))
    if first == second:
        return PlainText(local_copy(address, quiet))
    if isinstance(first, Pair):
        raise BadData(f"{address}: pairs of texts are read from tables: {', '.join(FORMS)}")
    source, target = (f"{address}.{ending}" for ending in (first, second))
    return ParallelText(local_copy(source, quiet), local_copy(target, quiet))


def matching(root: Path, path: str, ending: str) -> list[str]:
    """The paths that a pattern stands for: of tables, or of pairs of files without their endings,
    of which ``ending`` is the first; without an ``ending``, of all files. A path without ``*``
    stands for itself.

    Raises:
        BadData: no file matches.
    """
    if not is_pattern(path):
        return [path]
    pattern = re.sub(r"[\[?]", r"[\g<0>]", str(Path(path).expanduser()))  # * alone is special
    files = {one.removesuffix(".gz") for one in glob(pattern, root_dir=root)}
    files |= {one.removesuffix(".gz") for one in glob(f"{pattern}.gz", root_dir=root)}
    if not ending and (plain := {one for one in files if find_file(root / one)}):
        return sorted(plain)
    pairs = {one.removesuffix(".gz") for one in glob(f"{pattern}.{ending}*", root_dir=root)}
    found = {one for one in files if Path(one).suffix in FORMS}
    found |= {one.removesuffix(f".{ending}") for one in files | pairs if one.endswith(f".{ending}")}
    if not found:
        raise BadData(f"no file matches {root / path}")
    return sorted(found)


def is_pattern(path: str) -> bool:
    """Whether a path stands for several."""
    return "*" in path


def find_tests(folder: Path, form: TextFormat) -> dict[str, ParallelText | PlainText | Table]:
    """The test sets in a folder, by name: each ``test*`` that is a pair of files or a table."""
    names = set()
    for path in folder.glob("test*"):
        name = path.name.removesuffix(".gz")
        stem, dot, ending = name.rpartition(".")
        if stem and (ending in form.endings or dot + ending in FORMS):
            names.add(stem)
    return {name: find_text(folder / name, form) for name in sorted(names)}


def named_tests(test: Any, endings: Sequence[str]) -> Mapping[str, Any] | None:
    """The test sets of ``data.test``, by name. A single path gets the name of its file, everything
    else that has no name is ``test``.

    Raises:
        BadOption: a name that another split has, or that cannot be part of a file name: files of
            predictions are named after test sets.
    """
    if isinstance(test, PathLike):
        test = fspath(test)
    if isinstance(test, str) and not is_pattern(test):
        name = file_name(test) if is_address(test) else test.rstrip("/").rpartition("/")[2]
        name = name.removesuffix(".gz")
        for ending in endings:
            name = name.removesuffix(ending)
        test = {name: test}
    if test is not None and not isinstance(test, Mapping):
        test = {"test": test}
    named: Mapping[str, Any] | None = test
    for name in named or ():
        if name in ("train", "val") or not re.fullmatch(r"\w[\w .+-]*", name):
            raise BadOption(
                f"data.test: a test set cannot be named {name!r}; give it a name: "
                "data.test: {NAME: path}, NAME of letters, digits, - _ ."
            )
    return named
