"""Two named columns of a table in a file: ``.tsv``, ``.csv``, ``.jsonl`` or ``.parquet``, each
plain or as ``.gz``.

Nothing is dropped and nothing is guessed: a row that lacks a column, a blank line, or a line end
where none is allowed is an error that names file and line.

- ``.tsv``: no quoting, so a quotation mark is an ordinary character and a cell holds neither tab
  nor line end. The first row names the columns.
- ``.csv``: RFC 4180, so a cell in quotes may hold commas, line ends and doubled quotes. The first
  row names the columns. Another delimiter may stand for the comma.
- ``.jsonl``: one object per line.
- ``.parquet``: as it is.
- ``.conll``: a word and its label a line, a blank line after each sentence.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from tfzoo.base.registry import task_for
from tfzoo.data.lines import BLOCK, LIMITS, Limits, check_unicode, read_lines, stat_fingerprint
from tfzoo.data.pairs import Pair, joined, names_of
from tfzoo.errors import BadData, did_you_mean, listing

Row = tuple[int, str, str]
"""The number of the line in which a row begins (in Parquet, of the row), and its two cells."""

WORD = re.compile(r"[^ \t\r\n]+")

Cell = Callable[[Sequence[str]], str]
"""Takes the cell of a column out of the cells of a row."""


class Table:
    """The cells of two columns, row by row. It can be iterated several times.

    Without ``header``, the first row of a ``.tsv`` need not name the columns; then the file has
    exactly these two. ``delimiter`` is that of a ``.csv``; ``limits`` are those of its size.

    Raises (while iterating):
        BadData: the file is missing, empty, damaged, too large or not UTF-8, it has no such
            column, or a row is incomplete.
    """

    def __init__(
        self,
        path: Path,
        columns: tuple[str, str],
        *,
        header: bool = True,
        delimiter: str = ",",
        limits: Limits = LIMITS,
    ) -> None:
        self.path, self.columns = path, columns
        self.header, self.delimiter, self.limits = header, delimiter, limits
        self.form = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix

    def __iter__(self) -> Iterator[tuple[str, str]]:
        rows = self._rows()
        head = next(rows, None)
        if head is None:
            raise BadData(f"{self.path}: the file has no rows")
        yield head[1:]
        yield from map(itemgetter(1, 2), rows)

    def stat_fingerprint(self) -> str | None:
        """See :func:`tfzoo.data.lines.stat_fingerprint`."""
        known = stat_fingerprint(self.path)
        return known and "\n".join((known, str(self.header), self.delimiter, *self.columns))

    def location(self, row: int) -> str:
        """File and line of a row, for an error message."""
        number = next(islice(self._rows(), row, None))[0]
        return f"{self.path}, {'row' if self.form == '.parquet' else 'line'} {number:,}"

    def _rows(self) -> Iterator[Row]:
        return FORMS.get(self.form, sentences)(self)  # CoNLL files have endings of many kinds

    def cells(self, row: Mapping[str, Any], where: str) -> tuple[str, str]:
        """The two cells of a row whose cells have names."""
        first, second = (cell(row, column, where) for column in self.columns)
        return first, second

    @property
    def names(self) -> list[str]:
        """The columns of the file that are read."""
        return [name for column in self.columns for name in names_of(column)]


def tabbed(table: Table) -> Iterator[Row]:
    """The rows of a ``.tsv``."""
    names: Sequence[str] = table.columns  # of a file without a header
    first: Cell = itemgetter(0)
    second: Cell = itemgetter(1)
    width = 2
    for number, line in enumerate(read_lines(table.path, table.limits), 1):
        row = line.split("\t")
        if not line or "\r" in line:  # other programs drop it, or read it as several
            wrong = CARRIAGE_RETURN if line else BLANK
            raise BadData(f"{table.path}, line {number:,}: {wrong}")
        if number == 1 and (table.header or set(table.columns) <= set(row)):
            names, width, (first, second) = row, len(row), cells_at(row, table)
            continue
        if len(row) != width:
            missing = len(row) < width
            few = "a tab is missing" if missing else "a tab inside a cell must become a space"
            wanted = "<TAB>".join(names[:6])
            raise BadData(
                f"{table.path}, line {number:,}: {columns(row)} instead of {width}, {wanted}; {few}"
            )
        yield number, first(row), second(row)


def commas(table: Table) -> Iterator[Row]:
    """The rows of a ``.csv``."""
    begun = 0

    def lines() -> Iterator[str]:
        for number, line in enumerate(read_lines(table.path, table.limits), 1):
            if "\r" in line:
                raise BadData(f"{table.path}, line {number:,}: {CARRIAGE_RETURN}")
            yield line + "\n"

    reader = csv.reader(lines(), strict=True, delimiter=table.delimiter)
    width = 0
    first: Cell
    second: Cell
    limit = csv.field_size_limit(table.limits.line)
    try:
        for row in reader:
            line, begun = begun + 1, reader.line_num
            if not width:
                check_delimiter(row, table)
                width, (first, second) = len(row), cells_at(row, table)
                continue
            if not row:
                raise BadData(f"{table.path}, line {line:,}: {BLANK}")
            if len(row) != width:
                missing = len(row) < width
                sign = "comma" if table.delimiter == "," else repr(table.delimiter)
                few = f"a {sign} is missing" if missing else f"a cell with a {sign} needs quotes"
                raise BadData(
                    f"{table.path}, line {line:,}: {columns(row)} instead of {width}; {few}"
                )
            yield line, first(row), second(row)
    except csv.Error as error:
        if "field limit" in str(error):
            error = csv.Error(f"a cell over {table.limits.line:,} characters; data.max_line")
        raise BadData(f"{table.path}, line {begun + 1:,}: not CSV ({error})") from None
    finally:
        csv.field_size_limit(limit)


def objects(table: Table) -> Iterator[Row]:
    """The rows of a ``.jsonl``."""
    for number, line in enumerate(read_lines(table.path, table.limits), 1):
        where = f"{table.path}, line {number:,}"
        if not line.strip():
            raise BadData(f"{where}: {BLANK}")
        try:
            row = json.loads(line, object_pairs_hook=once_each)
        except (ValueError, RecursionError) as error:
            raise BadData(f"{where}: not JSON ({error})") from None
        if not isinstance(row, dict):
            wanted = ", ".join(f'"{name}": ...' for name in table.names)
            raise BadData(f"{where}: a row is an object, {{{wanted}}}, not {line[:40]}")
        yield number, *table.cells(row, where)


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError if a name occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{name!r} is there twice")
    return found


def parquet(table: Table) -> Iterator[Row]:
    """The rows of a ``.parquet``."""
    import gzip
    import tempfile
    import zlib

    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with tempfile.TemporaryFile() as whole, table.path.open("rb") as stream:
            if table.path.suffix == ".gz":  # Parquet needs to seek, so it is unpacked first
                with gzip.open(stream) as inner:
                    while block := inner.read(BLOCK):
                        whole.write(block)
                        table.limits.check_unpacked(table.path, whole.tell())
            with ParquetFile(whole if table.path.suffix == ".gz" else stream) as file:
                names = file.schema_arrow.names
                wanted = [name for name in (*table.names, NESTED) if name in names]
                count, groups = 0, range(file.metadata.num_row_groups)
                sizes = (file.metadata.row_group(group).total_byte_size for group in groups)
                table.limits.check_unpacked(table.path, sum(sizes))
                if NESTED not in names:
                    cells_at(names, table)
                for batch in file.iter_batches(BATCH, columns=wanted):
                    rows = (
                        (number, *table.cells(row, f"{table.path}, row {number:,}"))
                        for number, row in enumerate(batch.to_pylist(), count + 1)
                    )
                    for row in rows:
                        table.limits.check_lengths(row[1:], str(table.path), row[0] - 1, "row")
                        yield row
                    count += batch.num_rows
    except (OSError, EOFError, zlib.error, pyarrow.ArrowException) as error:
        why = getattr(error, "strerror", None) or f"damaged, or not Parquet ({error})"
        raise BadData(f"{table.path}: {why}") from None


def sentences(table: Table) -> Iterator[Row]:
    """The sentences of a CoNLL file: a word a line, with columns between spaces or tabs, of which
    the first is the word and the last its label; a blank line ends a sentence.
    """
    begun, width, words, labels = 0, 0, list[str](), list[str]()
    for number, line in enumerate(chain(read_lines(table.path, table.limits), [""]), 1):
        row = words_of(line)
        if row and row[0] != DOCUMENT:
            where = f"{table.path}, line {number:,}"
            width = width or len(row)
            if len(row) != width or width < 2:
                wanted = f"the {width} of the first line" if width > 1 else "a word and its label"
                raise BadData(f"{where}: {columns(row)} instead of {wanted}")
            first, last = table.columns
            begun = begun or number
            words.append(row[place_of(first, width, where, "text", 1)])
            labels.append(row[place_of(last, width, where, "label", width)])
        elif words:
            yield begun, " ".join(words), " ".join(labels)
            begun, words, labels = 0, [], []


def place_of(column: str, width: int, where: str, unnamed: str, usual: int) -> int:
    """The index of a column of a CoNLL file that is named by its number from 1; that of the
    ``usual`` one where the option has its default, ``unnamed``.
    """
    number = str(usual) if column == unnamed else column
    if not (number.isdecimal() and 1 <= int(number) <= width):
        raise BadData(
            f"{where}: no column {column} among {width}; columns of a CoNLL file have no names: "
            f"data.{unnamed}_column takes a number, here {usual} by default"
        )
    return int(number) - 1


DOCUMENT = "-DOCSTART-"
"""The word of a CoNLL file that marks where a document begins."""

FORMS: Mapping[str, Callable[[Table], Iterator[Row]]] = {
    ".tsv": tabbed,
    ".csv": commas,
    ".jsonl": objects,
    ".parquet": parquet,
    ".conll": sentences,
}
"""The reader of each file format, by ending."""

BATCH = 4096
"""Rows of Parquet that are unpacked at once."""

NESTED = "translation"
"""A column that holds a mapping from language to sentence, as in many translation data sets."""

BLANK = "a blank line; remove it"
CARRIAGE_RETURN = (
    "a carriage return inside the line, which some programs read as a line end; "
    "replace it by a space, or by a line feed if it should end the line"
)


def columns(row: Sequence[str]) -> str:
    """``"1 column"``, ``"3 columns"``"""
    return f"{len(row)} column{'s' * (len(row) != 1)}"


def check_delimiter(names: Sequence[str], table: Table) -> None:
    """Refuse a ``.csv`` whose first row is one name, made of the columns and another delimiter."""
    for sign in ";|\t,":
        columns = names[0].split(sign)
        if len(names) == 1 < len(columns) and names[0] not in table.columns:
            raise BadData(
                f"{table.path}: the columns are not separated by {table.delimiter!r} but by "
                f"{sign!r}; set data.delimiter to it"
            )


def cells_at(names: Sequence[str], table: Table) -> tuple[Cell, Cell]:
    """What takes the cells of the two columns out of a row, whose columns have these names."""
    for name in table.names:
        if names.count(name) != 1:
            raise no_column(name, names, str(table.path))
    first, second = (cell_at([*map(names.index, names_of(one))]) for one in table.columns)
    return first, second


def cell_at(places: Sequence[int]) -> Cell:
    """What takes the text at these places, of which a pair has two, out of a row."""
    if len(places) == 1:
        return itemgetter(places[0])
    return lambda row: joined(row[place] for place in places)


def no_column(column: str, names: Iterable[str], where: str) -> BadData:
    """The error for a column that is missing, or there twice."""
    names = list(names)
    if column in names:
        return BadData(f"{where}: the column {column!r} is there twice")
    return BadData(
        f"{where}: no column {column!r}.{did_you_mean(column, names)} There: {listing(names)}. "
        "data.text_column and data.label_column name columns of texts and labels, "
        "data.source_column and data.target_column those of translations"
    )


def cell(row: Mapping[str, Any], column: str, where: str) -> str:
    """One cell as text."""
    if isinstance(column, Pair):
        return joined(cell(row, name, where) for name in names_of(column))
    if column not in row and isinstance(row.get(NESTED), Mapping):
        row = row[NESTED]
    if column not in row:
        raise no_column(column, row, where)
    return text_of(row[column], column, where)


class Numbers(str):
    """The name of a column whose cells may be numbers with fractions."""

    __slots__ = ()


class Lists(str):
    """The name of a column whose cells may be lists of texts, which are given as JSON."""

    __slots__ = ()


class Words(str):
    """The name of a column whose cells are words, or labels of words, with spaces between them; or
    lists of these. In a CoNLL file it may be the number of a column.
    """

    __slots__ = ()


def words_of(text: str) -> list[str]:
    """The words of a text, or its labels: what spaces, tabs and line ends separate.

    >>> words_of("Anna lives  in New\\u00a0York .")
    ['Anna', 'lives', 'in', 'New\\xa0York', '.']
    """
    return WORD.findall(text)


def text_of(value: Any, column: str, where: str) -> str:
    """A cell's value as text. Whole numbers and booleans are written as in JSON, and so is what
    the column may hold besides: :class:`Numbers`, :class:`Lists`.
    """
    if getattr(value, "ndim", None) == 0:  # a number of NumPy, or a tensor without dimensions
        value = value.item()
    if isinstance(column, Lists | Words):
        value = value.tolist() if hasattr(value, "tolist") else value
        several = list | tuple if isinstance(column, Words) else list | tuple | set
        if isinstance(value, several):
            texts = [text_of(item, str(column), where) for item in value]
            if isinstance(column, Words):
                return spaced(texts, column, where)
            return json.dumps(texts, ensure_ascii=False)
    if isinstance(value, bool) or (isinstance(value, float) and isinstance(column, Numbers)):
        return json.dumps(value)
    if isinstance(value, str | int):
        return check_unicode(str(value), where)
    if value is None:
        raise BadData(f"{where}: {column!r} is empty")
    what, instead = type(value).__name__, ""
    if isinstance(value, float):
        instead = (
            f". A label is text or a whole number. For numbers, set {task_for('number')}; or turn "
            "ranges of numbers into classes, such as low and high"
        )
    elif isinstance(value, list | tuple | set) or hasattr(value, "ndim"):
        instead = (
            ". A cell is one text or one label: join words with spaces; for several labels of a "
            f"text, set {task_for('several')}"
        )
    raise BadData(f"{where}: {column!r} is not text but a {what}, {str(value)[:40]}{instead}")


def spaced(words: Sequence[str], column: str, where: str) -> str:
    """Words with spaces between them.

    Raises:
        BadData: a word is empty, or has a space inside.
    """
    for word in words:
        if not word or any(sign in word for sign in " \t\r\n"):
            raise BadData(f"{where}: {column!r} has the word {word!r}: no word, or several")
    return " ".join(words)
