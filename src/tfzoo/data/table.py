"""Two named columns of a table in a file: ``.tsv``, ``.csv``, ``.jsonl`` or ``.parquet``, each
plain or as ``.gz``.

Nothing is dropped and nothing is guessed: a row that lacks a column, a blank line or a line end
where none can be is an error that names file and line. Where each has its cells:

- ``.tsv``: no quotes, so a quotation mark is a character like others, and a cell holds no tab and
  no line end. The first row is names.
- ``.csv``: RFC 4180, so cells in quotes may hold commas, line ends and doubled quotes. The first
  row is names.
- ``.jsonl``: one object per line.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tfzoo.data.lines import read_lines, stamp, written
from tfzoo.errors import BadData, did_you_mean, listing

Row = tuple[int, str, str]
"""The line (or the row, where there are no lines) that it begins in, and the two cells."""


class Table:
    """Pairs of cells, those of two columns. Iterate as often as you like.

    Without ``header``, a ``.tsv`` may have no row of names: then it has these two columns alone.

    Raises (while iterating):
        BadData: a file that is missing, empty, damaged or not UTF-8, a column that it does not
            have, a row that is not whole.
    """

    def __init__(self, path: Path, columns: tuple[str, str], *, header: bool = True) -> None:
        self.path, self.columns, self.header = path, columns, header
        self.form = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix

    def __iter__(self) -> Iterator[tuple[str, str]]:
        count = 0
        for count, (_, first, second) in enumerate(self._rows(), 1):  # noqa: B007  # used after the loop
            yield first, second
        if count == 0:
            raise BadData(f"{self.path}: the file has no rows")

    def stamp(self) -> str | None:
        """What tells that the file has not changed, if anything does."""
        known = stamp(self.path)
        return known and "\n".join((known, str(self.header), *self.columns))

    def place(self, row: int) -> str:
        """Where a row stands, for a message: the file, and the line that it begins in."""
        number = next(islice(self._rows(), row, None))[0]
        return f"{self.path}, {'row' if self.form == '.parquet' else 'line'} {number:,}"

    def _rows(self) -> Iterator[Row]:
        return FORMS[self.form](self)

    def cells(self, row: Mapping[str, Any], place: str) -> tuple[str, str]:
        """The two cells of a row that has names."""
        first, second = (cell(row, column, place) for column in self.columns)
        return first, second


def tabbed(table: Table) -> Iterator[Row]:
    """The rows of a ``.tsv``."""
    names: Sequence[str] = table.columns
    places, width = (0, 1), 2
    for number, line in enumerate(read_lines(table.path), 1):
        row = line.split("\t")
        check_line(line, f"{table.path}, line {number:,}")
        if number == 1 and (table.header or set(table.columns) <= set(row)):
            names, width, places = row, len(row), columns_at(row, table)
            continue
        if len(row) != width:
            few = (
                "a tab is missing"
                if len(row) < width
                else "a tab inside a text must become a space"
            )
            wanted = "<TAB>".join(names[:6])
            raise BadData(
                f"{table.path}, line {number:,}: {len(row)} column{'s' * (len(row) != 1)} instead of {width}, {wanted}; {few}"
            )
        yield number, row[places[0]], row[places[1]]


def commas(table: Table) -> Iterator[Row]:
    """The rows of a ``.csv``."""
    begun = 0

    def lines() -> Iterator[str]:
        for number, line in enumerate(read_lines(table.path), 1):
            if "\r" in line:
                raise BadData(f"{table.path}, line {number:,}: {CARRIAGE_RETURN}")
            yield line + "\n"

    reader = csv.reader(lines(), strict=True)
    width, places = 0, (0, 0)
    limit = csv.field_size_limit(2**31 - 1)
    try:
        for row in reader:
            first, begun = begun + 1, reader.line_num
            if not width:
                width, places = len(row), columns_at(row, table)
                continue
            if not row:
                raise BadData(f"{table.path}, line {first:,}: {BLANK}")
            if len(row) != width:
                few = (
                    "a comma is missing"
                    if len(row) < width
                    else "a text with a comma must stand in quotes"
                )
                raise BadData(
                    f"{table.path}, line {first:,}: {len(row)} column{'s' * (len(row) != 1)} instead of {width}; {few}"
                )
            yield first, row[places[0]], row[places[1]]
    except csv.Error as error:
        raise BadData(f"{table.path}, line {begun + 1:,}: not CSV ({error})") from None
    finally:
        csv.field_size_limit(limit)


def objects(table: Table) -> Iterator[Row]:
    """The rows of a ``.jsonl``."""
    for number, line in enumerate(read_lines(table.path), 1):
        place = f"{table.path}, line {number:,}"
        if not line.strip():
            raise BadData(f"{place}: {BLANK}")
        try:
            row = json.loads(line, object_pairs_hook=once_each)
        except (ValueError, RecursionError) as error:
            raise BadData(f"{place}: not JSON ({error})") from None
        if not isinstance(row, dict):
            wanted = ", ".join(f'"{name}": ...' for name in table.columns)
            raise BadData(f"{place}: a row is an object, {{{wanted}}}, not {line[:40]}")
        yield number, *table.cells(row, place)


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, which has each name once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(
            f"{Counter(name for name, _ in pairs).most_common(1)[0][0]!r} is there twice"
        )
    return found


def parquet(table: Table) -> Iterator[Row]:
    """The rows of a ``.parquet``."""
    import gzip
    import shutil
    import tempfile
    import zlib

    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with tempfile.TemporaryFile() as whole, table.path.open("rb") as stream:
            if table.path.suffix == ".gz":  # it is read from its end
                with gzip.open(stream) as inner:
                    shutil.copyfileobj(inner, whole)
            with ParquetFile(whole if table.path.suffix == ".gz" else stream) as file:
                names = file.schema_arrow.names
                wanted = [name for name in (*table.columns, NESTED) if name in names]
                count = 0
                if NESTED not in names:
                    columns_at(names, table)
                for batch in file.iter_batches(columns=wanted):
                    for number, row in enumerate(batch.to_pylist(), count + 1):
                        yield number, *table.cells(row, f"{table.path}, row {number:,}")
                    count += batch.num_rows
    except (OSError, EOFError, zlib.error, pyarrow.ArrowException) as error:
        raise BadData(
            f"{table.path}: {getattr(error, 'strerror', None) or f'damaged, or not Parquet ({error})'}"
        ) from None


FORMS: Mapping[str, Callable[[Table], Iterator[Row]]] = {
    ".tsv": tabbed,
    ".csv": commas,
    ".jsonl": objects,
    ".parquet": parquet,
}
"""How each ending is read."""

NESTED = "translation"
"""A column that holds the texts of a row by language, as many translation data sets have it."""

BLANK = "a blank line; remove it"
CARRIAGE_RETURN = "a carriage return inside the line, which some programs take for a line end; make it a space, or line ends line feeds"


def check_line(line: str, place: str) -> None:
    """Refuse what other programs would take for no line or for several."""
    if not line:
        raise BadData(f"{place}: {BLANK}")
    if "\r" in line:
        raise BadData(f"{place}: {CARRIAGE_RETURN}")


def columns_at(names: Sequence[str], table: Table) -> tuple[int, int]:
    """Where the two columns stand among those of a file."""
    for column in table.columns:
        if names.count(column) != 1:
            raise no_column(column, names, str(table.path))
    return names.index(table.columns[0]), names.index(table.columns[1])


def no_column(column: str, names: Iterable[str], where: str) -> BadData:
    """The error for a column that is not there, or is there twice."""
    names = list(names)
    if column in names:
        return BadData(f"{where}: the column {column!r} is there twice")
    return BadData(
        f"{where}: no column {column!r}.{did_you_mean(column, names)} There: {listing(names)}"
    )


def cell(row: Mapping[str, Any], column: str, place: str) -> str:
    """One cell as text; whole numbers and truth values are written as JSON writes them."""
    if column not in row and isinstance(row.get(NESTED), Mapping):
        row = row[NESTED]
    if column not in row:
        raise no_column(column, row, place)
    value = row[column]
    if isinstance(value, bool):
        return json.dumps(value)
    if not isinstance(value, str | int):
        raise BadData(
            f"{place}: {column!r} is {'empty' if value is None else f'no text but {str(value)[:40]}'}"
        )
    return written(str(value), place)
