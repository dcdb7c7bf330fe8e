"""Files of lines, one or two parallel ones, and finding the files or the table of a split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from itertools import chain, zip_longest
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tfzoo.data.lines import find_file, missing, read_lines
from tfzoo.data.pairs import Pair
from tfzoo.data.remote import addresses, file_name, is_address, local_copy
from tfzoo.data.table import FORMS, Row, Table, Words
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

    @property
    def single(self) -> bool:
        """Whether a file of lines is a text by itself."""
        return self.endings[0] == self.endings[1]


class ParallelText(Table):
    """The pairs of lines of two files.

    Raises (while iterating):
        BadData: a file is missing, damaged or not UTF-8, or the files differ in length.
    """

    def __init__(self, source: Path, target: Path) -> None:
        super().__init__(source, ("", ""))
        self.files, self.path = (source, target), f"{source} and {target}"

    def rows(self) -> Iterator[Row]:
        sources, targets = map(read_lines, self.files)
        for number, (source, target) in enumerate(zip_longest(sources, targets), 1):
            if source is None or target is None:
                more = number + sum(1 for _ in (targets if source is None else sources))
                short, long = self.files if source is None else self.files[::-1]
                raise BadData(
                    f"{long} has {more:,} lines, {short} has {number - 1:,} lines; "
                    "line n of one must belong to line n of the other"
                )
            yield number, source, target


class PlainText(Table):
    """The lines of one file, as a table of one column has them: each as both cells of a row."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ("", ""))

    def rows(self) -> Iterator[Row]:
        return ((n, line, line) for n, line in enumerate(read_lines(self.files[0]), 1))


@dataclass(frozen=True)
class JoinedText:
    """The rows of several texts, one text after the other."""

    parts: tuple[Table, ...]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return chain.from_iterable(self.parts)

    @property
    def path(self) -> str:
        """The first of them, for an error message."""
        return f"{self.parts[0].path} and {len(self.parts) - 1} more"

    def location(self, row: int) -> str:
        """File and line of a row, for an error message."""
        for part in self.parts[:-1]:
            rows = sum(1 for _ in part)
            if row < rows:
                return part.location(row)
            row -= rows
        return self.parts[-1].location(row)


def find_text(path: Path, form: TextFormat) -> Table:
    """The text of a split: ``corpus/train`` means the files ``train.en`` and ``train.de``, or a
    table such as ``train.tsv`` (``.csv``, ``.jsonl``, ``.parquet``), whose path may also be given
    with its ending. Where both endings are one, it means the lines of one file: ``train.txt``, or
    ``train`` itself. Each file is taken plain or, if there is no such file, as ``.gz``.

    Raises:
        BadData: there is no such file; the message says what was looked for and what is there.
    """
    first, named = form.endings[0], find_file(path)
    if is_table(path.name) or (isinstance(first, Words) and named is not None):
        if named is None:
            raise missing(path.parent, [path.name])
        return form.table(named)
    if form.single and (lines := find_file(path, path.with_name(f"{path.name}.{first}"))):
        return PlainText(lines)
    files = {name: find_file(path.parent / name) for name in pair_names(path.name, form)}
    source, target = files.values() if len(files) == 2 else (None, None)
    if source is not None and target is not None:
        return ParallelText(source, target)
    tables = [table for ending in FORMS if (table := find_file(Path(f"{path}{ending}")))]
    if tables and not any(files.values()):
        if len(tables) > 1:
            both = " and ".join(table.name for table in tables)
            raise BadData(f"{path.parent} has {both}: keep one, or give the full path of one")
        return form.table(tables[0])
    if path.is_dir() or named is not None:
        raise BadData(
            f"{path} is no table by its ending, {', '.join(FORMS)}. Of two files of lines, give "
            "their path without its ending; of a folder with train in it, data.root"
        )
    forms = f"{path.name}{', '.join(FORMS)}"
    lacking = [name for name, file in files.items() if file is None]
    raise missing(path.parent, lacking or [forms], forms if len(lacking) == len(files) > 0 else "")


def pair_names(name: str, form: TextFormat) -> list[str]:
    """The names of the files of lines that are a text together."""
    first, second = form.endings
    return (
        [] if isinstance(first, Pair) else [*dict.fromkeys((f"{name}.{first}", f"{name}.{second}"))]
    )


def find_texts(root: Path, paths: Sequence[str], form: TextFormat) -> Table | JoinedText:
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
    first = form.endings[0]
    ending = "" if form.single or isinstance(first, Words) else first
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
    name = file_name(path) if is_address(path) else path
    return Path(name.removesuffix(".gz")).suffix in FORMS


def text_of(root: Path, path: str, form: TextFormat, quiet: bool = False) -> Table:
    """The text of one of :func:`files_of`; at an address, its copy in the cache, which is made
    without a word if ``quiet``, and only the file that is named is looked for.

    Raises:
        BadOption, BadData: it cannot be read.
    """
    if not is_address(path):
        return find_text(root / path, form)
    first, second = form.endings
    if is_table(path) or isinstance(first, Words):
        return form.table(local_copy(path, quiet))
    if form.single:
        return PlainText(local_copy(path, quiet))
    if isinstance(first, Pair):
        raise BadData(f"{path}: pairs of texts are read from tables: {', '.join(FORMS)}")
    return ParallelText(*(local_copy(f"{path}.{ending}", quiet) for ending in (first, second)))


def matching(root: Path, path: str, ending: str) -> list[str]:
    """The paths that a pattern stands for: of tables, or of pairs of files without their endings,
    of which ``ending`` is the first; without an ``ending``, of all files. A path without ``*``
    stands for itself.

    Raises:
        BadData: no file matches.
    """
    if "*" not in path:
        return [path]
    pattern = re.sub(r"[\[?]", r"[\g<0>]", str(Path(path).expanduser()))  # * alone is special
    files = [one for gz in ("", ".gz") for one in glob(f"{pattern}{gz}", root_dir=root)]
    names = {one.removesuffix(".gz") for one in files if (root / one).is_file()}
    if ending:
        pairs = {one for one in names if one.endswith(f".{ending}")}
        names = {one for one in names if is_table(one)}
        names |= {one.removesuffix(f".{ending}") for one in pairs}
    if not names:
        raise BadData(f"no file matches {root / path}")
    return sorted(names)


def find_tests(folder: Path, form: TextFormat) -> dict[str, Table]:
    """The test sets in a folder, by name: each ``test*`` that is a pair of files or a table."""
    names = (Path(path.name.removesuffix(".gz")) for path in folder.glob("test*"))
    endings = (*FORMS, *(f".{ending}" for ending in form.endings))
    found = sorted({name.stem for name in names if name.suffix in endings})
    return {name: find_text(folder / name, form) for name in found}


def named_tests(test: Any) -> Mapping[str, Any] | None:
    """The test sets of ``data.test``, by name. A single path gets the name of its file, everything
    else that has no name is ``test``.

    Raises:
        BadOption: a name that another split has, or that cannot be part of a file name: files of
            predictions are named after test sets.
    """
    if isinstance(test, str | PathLike) and "*" not in fspath(test):
        name = file_name(fspath(test)) if is_address(fspath(test)) else Path(test).name
        name = name.removesuffix(".gz")
        test = {Path(name).stem if Path(name).suffix in FORMS else name: test}
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
