"""Text files: their lines, and two named columns of a table: ``.tsv``, ``.csv``, ``.jsonl`` or
``.parquet``. Each is plain or, if it is text, ``.gz``, and UTF-8.

Only a line feed ends a line. A lone carriage return, U+0085 or U+2028 stays inside its line, since
otherwise the lines of two parallel files would no longer correspond. A carriage return right before
the line feed belongs to the line end.

Nothing is dropped and nothing is guessed: a row that lacks a column, a blank line, or a line end
where none is allowed is an error that names file and line.

- ``.tsv``: no quoting, so a quotation mark is an ordinary character and a cell holds neither tab
  nor line end. The first row names the columns.
- ``.csv``: RFC 4180, so a cell in quotes may hold commas, line ends and doubled quotes. The first
  row names the columns; a semicolon or a tab may separate them, if they do so there.
- ``.jsonl``: one object per line.
- ``.parquet``: as it is.
- ``.conll``: a word and its label a line, a blank line after each sentence, and comments.
"""

import ast
import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from tfzoo.base.registry import task_for
from tfzoo.errors import BadData, did_you_mean, listing

Row = tuple[str, str, str]
"""Where a row stands, such as ``train.tsv, line 3``, and its two cells."""

WORD = re.compile(r"[^ \t\r\n]+")


TAB = "\t"
"""Stands between the two texts of a pair. Within one of them it is read as a space."""


class Pair(str):
    """The names of the two columns that hold the texts of a pair, with a tab between them."""


def names_of(column: str) -> list[str]:
    """The columns of a file that ``column`` is read from.

    >>> names_of("text"), names_of(Pair("premise\\thypothesis"))
    (['text'], ['premise', 'hypothesis'])
    """
    return column.split(TAB) if isinstance(column, Pair) else [str(column)]


def joined(texts: Iterable[str]) -> str:
    """The texts of a pair as one.

    >>> joined(["it rains", "it is\\twet"])
    'it rains\\tit is wet'
    """
    return TAB.join(text.replace(TAB, " ") for text in texts)


def parts(text: str) -> tuple[str, str]:
    """The two texts of a pair; ``""`` has two empty ones."""
    first, _, second = text.partition(TAB)
    return first, second


def title(text: str) -> str:
    """A text, or both of a pair, as the title of a page."""
    return text.strip().replace(TAB, " / ")


@dataclass(frozen=True)
class Text:
    """The two cells of each row of a split. It can be iterated several times.

    Args:
        path: its name in error messages.
        rows: gives the rows with their places.
        files: those that are read.

    Raises:
        BadData: while iterating: a file cannot be read, has no such column, or lacks a cell.
    """

    path: str
    rows: Callable[[], Iterator[Row]]
    files: tuple[Path, ...] = ()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return map(itemgetter(1, 2), self.rows())

    def location(self, row: int) -> str:
        """File and line of a row, for an error message."""
        return next(islice(self.rows(), row, None))[0]


@dataclass(frozen=True)
class TextFormat:
    """How the text of a split stands in files.

    Args:
        columns: those of a table.
        endings: those of two files of lines, such as ``en`` and ``de``; of one, where both are the
            same.
        header: whether the first row of a ``.tsv`` has to name the columns; if not, it may, and the
            file has exactly these two.
        options: those of the section ``data`` that name the columns; none where nothing can.
    """

    columns: tuple[str, str]
    endings: tuple[str, str] = ("", "")
    header: bool = True
    options: tuple[str, ...] = ("text_column", "label_column")

    @property
    def single(self) -> bool:
        """Whether a file that is no table is a text by itself: lines, or words with labels."""
        return self.endings[0] == self.endings[1] or isinstance(self.endings[0], Words)

    @property
    def names(self) -> list[str]:
        """The columns of a file that are read."""
        return [name for column in self.columns for name in names_of(column)]

    def row(self, cells: Mapping[str, Any], where: str) -> Row:
        """The row at a place, of cells that have names."""
        first, second = self.columns
        return where, self.cell(cells, first, where), self.cell(cells, second, where)

    def cell(self, row: Mapping[str, Any], column: str, where: str) -> str:
        """One cell as text."""
        if isinstance(column, Pair):
            return joined(self.cell(row, name, where) for name in names_of(column))
        if column not in row and isinstance(row.get(NESTED), Mapping):
            row = row[NESTED]
        if column not in row:
            raise self.no_column(column, row, where)
        return text_of(row[column], column, where)

    def columns_of(self, names: Sequence[str], where: str) -> list[str]:
        """Those columns of a file that are read, of all its ``names``; each must be there once."""
        for name in self.names:
            if names.count(name) > 1 or (name not in names and NESTED not in names):
                raise self.no_column(name, names, where)
        return [name for name in (*self.names, NESTED) if name in names]

    def no_column(self, column: str, names: Collection[str], where: str) -> BadData:
        """The error for a column that is missing, or there twice."""
        if column in names:
            return BadData(f"{where}: the column {column!r} is there twice")
        how = f"Rename the one to read to {column!r}"
        if self.options:
            option = self.options[column not in names_of(self.columns[0])]
            how = f"Name the one to read: data.{option}: NAME"
        there = f"{did_you_mean(column, names)} There: {listing(names)}"
        return NoColumn(f"{where}: no column {column!r}.{there}. {how}")


def table(path: Path, form: TextFormat) -> Text:
    """The table in a file; a file of another ending has lines, or is CoNLL's."""
    other = lines_of if form.endings[0] == form.endings[1] else sentences
    reader = FORMS.get(ending_of(path.name), other)
    return Text(str(path), partial(reader, path, form), (path,))


def ending_of(name: str) -> str:
    """The ending of the name of a file, without ``.gz``."""
    return Path(name.removesuffix(".gz")).suffix


def lines_of(path: Path, form: TextFormat) -> Iterator[Row]:
    """The lines of a file, as a table of one column has them: each as both cells of a row."""
    for number, line in enumerate(read_lines(path), 1):
        yield f"{path}, line {number:,}", line, line


def delimited(path: Path, form: TextFormat) -> Iterator[Row]:
    """The rows of a ``.tsv`` or a ``.csv``."""
    tabs = ending_of(path.name) == ".tsv"
    lines = (f"{line}\n" for line in read_lines(path))
    first = next(lines, "")
    if not first:
        raise BadData(f"{path} is empty")
    delimiter = "\t" if tabs else delimiter_of(first, form.names)
    names: Sequence[str] = form.columns if tabs and not form.header else ()
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(
        chain([first], lines),
        strict=True,
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL,
    )
    begun = 0
    try:
        for row in reader:
            number, begun = begun + 1, reader.line_num
            if number == 1 and (not names or {*form.columns} <= {*row}):
                form.columns_of(row, f"{path}, line 1, which names the columns")
                names = row
                continue
            where = f"{path}, line {number:,}"
            if len(row) != len(names):
                within = "must become a space" if tabs else "needs quotes"
                raise BadData(
                    f"{where}: {len(row)} column(s) instead of {len(names)}, "
                    f"{', '.join(names[:6])}; {delimiter!r} separates them, and {within} in a cell"
                )
            yield form.row(dict(zip(names, row, strict=True)), where)
    except csv.Error as error:
        raise BadData(f"{path}, line {begun + 1:,}: not CSV ({error})") from None


def delimiter_of(first: str, names: Collection[str]) -> str:
    """The sign that separates most of the columns ``names`` in the first line of a ``.csv``, or
    most columns.
    """
    rows = {sign: next(csv.reader([first], delimiter=sign), []) for sign in ",;\t|"}
    return max(rows, key=lambda sign: (len({*names} & {*rows[sign]}), len(rows[sign])))


def objects(path: Path, form: TextFormat) -> Iterator[Row]:
    """The rows of a ``.jsonl``."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number:,}"
        try:
            row = dict(json.loads(line))
        except (ValueError, TypeError, RecursionError) as error:
            raise BadData(f"{where}: no object in JSON, {{...}} ({error})") from None
        yield form.row(row, where)


def parquet(path: Path, form: TextFormat) -> Iterator[Row]:
    """The rows of a ``.parquet``."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            wanted, number = form.columns_of(file.schema_arrow.names, str(path)), count(1)
            for batch in file.iter_batches(BATCH, columns=wanted):
                for row in batch.to_pylist():
                    yield form.row(row, f"{path}, row {next(number):,}")
    except (OSError, pyarrow.ArrowException) as error:
        raise BadData(f"{path}: damaged, or not Parquet ({error})") from None


def sentences(path: Path, form: TextFormat) -> Iterator[Row]:
    """The sentences of a CoNLL file: a word a line, with columns between spaces or tabs, of which
    the first is the word and the last its label, or those of other numbers; a blank line ends a
    sentence. Comments before a sentence are left out, and so are CoNLL-U's ranges of words
    (``2-3``) and empty words (``2.1``), which its first column has.
    """
    words = (line for line in read_lines(path) if words_of(line) and line[0] != COMMENT)
    first = next((line for line in words if words_of(line)[0] != DOCUMENT), "")
    width, tabs = len(words_of(first)), "\t" in first
    text = column_of(form.columns[0], "text", 1, width, path)
    label = column_of(form.columns[1], "label", max(width, 2), width, path)
    begun, rows = "", list[list[str]]()
    for number, line in enumerate(chain(read_lines(path), [""]), 1):
        row, where = words_of(line), f"{path}, line {number:,}"
        if not row or row[0] == DOCUMENT:
            if rows:
                check_first(rows, text, begun)
                texts, labels = (" ".join(one[at] for one in rows) for at in (text, label))
                yield begun, texts, labels
            rows = []
            continue
        if (not rows and is_comment(line, width, tabs)) or (text and RANGE.fullmatch(row[0])):
            continue
        if len(row) != width:
            raise BadData(f"{where}: {len(row)} column(s) instead of the {width} of other words")
        begun = begun if rows else where
        rows.append(row)


def column_of(option: str, unnamed: str, usual: int, width: int, path: Path) -> int:
    """The index of a column of a CoNLL file: that of the number, from 1, which is given in place of
    the name of a column, or of the ``usual`` one if the option has its default, ``unnamed``.
    """
    number = str(usual) if option == unnamed else option
    if not (number.isdecimal() and 1 <= int(number) <= width):
        raise BadData(
            f"{path}: no column {option} among the {width} of its words; in a CoNLL file "
            f"data.{unnamed}_column takes a number, {usual} by default"
        )
    return int(number) - 1


def is_comment(line: str, width: int, tabs: bool) -> bool:
    """Whether a line before a sentence is a comment and no word ``#``: it has not as many columns
    as words, what separates them is another sign, or it is ``# KEY = VALUE``.
    """
    row = words_of(line)
    return line.startswith(COMMENT) and (
        len(row) != width or ("\t" in line) != tabs or row[2:3] == ["="]
    )


def check_first(rows: Sequence[Sequence[str]], text: int, where: str) -> None:
    """Raise BadData for words that are numbers: those that CoNLL-U has before the words."""
    numbers = [row[text] for row in rows if not RANGE.fullmatch(row[text])]
    if len(numbers) > 2 and numbers == [str(number + 1) for number in range(len(numbers))]:
        raise BadData(f"{where}: the first column counts words; set data.text_column 2")


COMMENT = "#"
RANGE = re.compile(r"\d+[-.]\d+")
"""The number of a range of words, or of an empty one, in CoNLL-U."""

DOCUMENT = "-DOCSTART-"
"""The word of a CoNLL file that marks where a document begins."""

FORMS: Mapping[str, Callable[[Path, TextFormat], Iterator[Row]]] = {
    ".tsv": delimited,
    ".csv": delimited,
    ".jsonl": objects,
    ".parquet": parquet,
    ".conll": sentences,
}
"""The reader of each file format, by ending."""

BATCH = 4096
"""Rows of Parquet that are unpacked at once."""

NESTED = "translation"
"""A column that holds a mapping from language to sentence, as in many translation data sets."""


class NoColumn(BadData):
    """A column is missing."""


class Numbers(str):
    """The name of a column whose cells may be numbers with fractions."""


class Lists(str):
    """The name of a column whose cells may be lists of texts, which are given as JSON."""


class Words(str):
    """The name of a column whose cells are words, with spaces between them; or lists of these. In a
    CoNLL file it may be the number of a column.
    """


class WordLabels(Words):
    """The name of a column whose cells are labels of words."""


def list_in(text: str, column: str, where: str) -> list[Any] | None:
    """The list that a text is, in JSON or as Python writes it: ``['x', 'y']``, as pandas writes a
    list into a ``.csv``. None if it is no list.

    >>> list_in("['x', 'y']", "label", ""), list_in('["x"]', "label", ""), list_in("x", "label", "")
    (['x', 'y'], ['x'], None)

    A list of another form, such as one of NumPy, ``['x' 'y']``, is refused.
    """
    text = text.strip()
    if text[:1] + text[-1:] != "[]":
        return None
    with suppress(ValueError, RecursionError):
        return list(json.loads(text))
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        found = ast.literal_eval(text)
        if "".join(repr(found).split()) == "".join(text.split()):  # Python joins 'x' 'y'
            return list(found)
    if text[1] in "'\"" or any(sign in text for sign in ", "):
        raise BadData(
            f"{where}: {column!r} is {text[:40]}, which is no list in JSON: write "
            '["x", "y"], or the items with what separates them'
        )
    return None


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
    if hasattr(value, "tolist"):  # a number or an array of NumPy, or a tensor
        value = value.tolist()
    if isinstance(column, Lists | Words):
        is_text = isinstance(column, Words) and not isinstance(column, WordLabels)
        if isinstance(value, str) and (not is_text or value.startswith(("['", '["'))):
            items = list_in(value, str(column), where)
            value = value if items is None else items
        if isinstance(value, list | tuple | set):
            texts = [text_of(item, str(column), where) for item in value]
            if isinstance(column, Words):
                return " ".join(texts)
            return json.dumps(texts, ensure_ascii=False)
    if isinstance(value, bool) or (isinstance(value, float) and isinstance(column, Numbers)):
        return json.dumps(value)
    if isinstance(value, str | int):
        return check_unicode(str(value), where)
    if value is None:
        raise BadData(f"{where}: {column!r} is empty")
    raise BadData(
        f"{where}: {column!r} is not text but a {type(value).__name__}, {str(value)[:40]}. A cell "
        f"is a text or a whole number, 0 and not 0.0. For numbers, set {task_for('number')}; for "
        f"several labels of a text, set {task_for('several')}; join words with spaces"
    )


def read_lines(path: Path) -> Generator[str, None, None]:
    """The lines of a file, plain or ``.gz``, without their ends. BadData names the line at which it
    is damaged or not UTF-8.
    """
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            yield from decoded(file, str(path))
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from None


def decoded(stream: Iterable[bytes], name: str) -> Generator[str, None, None]:
    """The lines of an open file, as :func:`read_lines`; errors call it ``name``."""
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise not_utf8(line, error.start, name, number) from None
            if number == 1:
                text = text.removeprefix("\ufeff")
                if "\0" in text:  # UTF-16 without a byte order mark
                    raise not_utf8(line, line.index(0), name, number)
            yield text.removesuffix("\r\n").removesuffix("\n")
    except (OSError, EOFError, zlib.error) as error:
        raise BadData(f"{name}: damaged or unreadable after line {number:,} ({error})") from None


def not_utf8(line: bytes, place: int, name: str, number: int) -> BadData:
    """The error for a byte of a line."""
    return BadData(
        f"{name}, line {number:,}: not UTF-8 (byte 0x{line[place]:02x} at position {place + 1}). "
        "Convert a copy, iconv -f ENCODING -t UTF-8 FILE > COPY, where ENCODING is the name of the "
        "encoding in which the file was written, one of iconv -l"
    )


def check_unicode(text: str, where: str) -> str:
    """The text itself, unless it holds a lone surrogate, as JSON and Python strings can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadData(
            f"{where}: {text[error.start]!r} is a lone surrogate (half of a character), "
            "which UTF-8 cannot encode"
        ) from None
    return text
