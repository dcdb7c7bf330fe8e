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
  row names the columns. Another delimiter may stand for the comma.
- ``.jsonl``: one object per line.
- ``.parquet``: as it is.
- ``.conll``: a word and its label a line, a blank line after each sentence, and comments.
"""

from __future__ import annotations

import ast
import csv
import gzip
import io
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
from tfzoo.data.pairs import Pair, joined, names_of
from tfzoo.errors import BadData, did_you_mean, listing

Row = tuple[str, str, str]
"""Where a row stands, such as ``train.tsv, line 3``, and its two cells."""

WORD = re.compile(r"[^ \t\r\n]+")


@dataclass(frozen=True)
class Text:
    """The two cells of each row of a split. It can be iterated several times.

    Args:
        path: its name in error messages.
        rows: gives the rows with their places.
        files: those that are read.

    Raises (while iterating):
        BadData: a file is missing, damaged or not UTF-8, it has no such column, or a row is
            incomplete.
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
        delimiter: what separates the columns of a ``.csv``.
    """

    columns: tuple[str, str]
    endings: tuple[str, str] = ("", "")
    header: bool = True
    delimiter: str = ","

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
        return where, cell(cells, first, where), cell(cells, second, where)

    def columns_of(self, names: Sequence[str], path: str | Path) -> list[str]:
        """Those columns of a file that are read, of all its ``names``.

        Raises:
            BadData: one is missing, or there twice.
        """
        for name in self.names if NESTED not in names else ():
            if names.count(name) != 1:
                raise no_column(name, names, str(path))
        return [name for name in (*self.names, NESTED) if name in names]


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
    tabs, begun = ending_of(path.name) == ".tsv", 0
    delimiter = "\t" if tabs else form.delimiter
    names: Sequence[str] = form.columns if tabs and not form.header else ()
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(
        whole_lines(path),
        strict=True,
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL,
    )
    try:
        for row in reader:
            number, begun = begun + 1, reader.line_num
            if number == 1 and (not names or {*form.columns} <= {*row}):
                check_delimiter(row, path, form)
                form.columns_of(row, path)
                names = row
                continue
            where = f"{path}, line {number:,}"
            if len(row) != len(names):
                raise BadData(f"{where}: {wrong_width(row, names, delimiter)}")
            yield form.row(dict(zip(names, row, strict=True)), where)
    except csv.Error as error:
        raise BadData(f"{path}, line {begun + 1:,}: not CSV ({error})") from None


def whole_lines(path: Path) -> Iterator[str]:
    """The lines of a file with their ends. Raises BadData for a carriage return inside one."""
    for number, line in enumerate(read_lines(path), 1):
        if "\r" in line:  # other programs read it as several
            raise BadData(f"{path}, line {number:,}: {CARRIAGE_RETURN}")
        yield line + "\n"


def wrong_width(row: Sequence[str], names: Sequence[str], delimiter: str) -> str:
    """What is said of a row that has not as many cells as there are ``names``."""
    if not row:
        return BLANK
    sign = {",": "comma", "\t": "tab"}.get(delimiter, repr(delimiter))
    wanted, many = "", f"a cell with a {sign} needs quotes"
    if delimiter == "\t":
        wanted, many = f", {'<TAB>'.join(names[:6])}", "a tab inside a cell must become a space"
    why = f"a {sign} is missing" if len(row) < len(names) else many
    return f"{columns(row)} instead of {len(names)}{wanted}; {why}"


def objects(path: Path, form: TextFormat) -> Iterator[Row]:
    """The rows of a ``.jsonl``."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number:,}"
        if not line.strip():
            raise BadData(f"{where}: {BLANK}")
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadData(f"{where}: not JSON ({error})") from None
        if not isinstance(row, dict):
            wanted = ", ".join(f'"{name}": ...' for name in form.names)
            raise BadData(f"{where}: a row is an object, {{{wanted}}}, not {line[:40]}")
        yield form.row(row, where)


def parquet(path: Path, form: TextFormat) -> Iterator[Row]:
    """The rows of a ``.parquet``."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            wanted, number = form.columns_of(file.schema_arrow.names, path), count(1)
            for batch in file.iter_batches(BATCH, columns=wanted):
                for row in batch.to_pylist():
                    yield form.row(row, f"{path}, row {next(number):,}")
    except (OSError, pyarrow.ArrowException) as error:
        why = getattr(error, "strerror", None) or f"damaged, or not Parquet ({error})"
        raise BadData(f"{path}: {why}") from None


def sentences(path: Path, form: TextFormat) -> Iterator[Row]:
    """The sentences of a CoNLL file: a word a line, with columns between spaces or tabs, of which
    the first is the word and the last its label; a blank line ends a sentence.

    Columns have names where a first line or a comment ``# global.columns = ID FORM ...`` gives
    them. Comments are left out, and so are CoNLL-U's ranges of words (``2-3``) and empty words.
    """
    layout = Layout(path, form)
    begun, opened, rows = "", False, list[list[str]]()
    known, doubtful = set[str](), dict[str, str]()
    for number, line in enumerate(chain(read_lines(path), [""]), 1):
        row, where = words_of(line), f"{path}, line {number:,}"
        if not row or row[0] == DOCUMENT:
            if rows:
                words = [one[layout.word] for one in rows]
                counted = [word for word in words if not RANGE.fullmatch(word)]
                numbers = [*map(str, range(1, len(counted) + 1))]
                if layout.word == 0 and len(counted) > 2 and counted == numbers:
                    raise BadData(f"{begun}: the first column counts words; set data.text_column 2")
                yield begun, " ".join(words), " ".join(one[layout.label] for one in rows)
            opened, rows = False, []
            continue
        if number == layout.header or layout.is_no_word(line, row, not opened):
            continue
        if len(row) != layout.width:
            raise BadData(
                f"{where}: {columns(row)} instead of the {layout.width} of the first line"
            )
        begun = begun if rows else where
        opened = opened or not line.startswith(COMMENT)
        if opened or (layout.tabs and row[0] != COMMENT):
            known.add(row[layout.label])
        else:
            doubtful.setdefault(row[layout.label], where)
        rows.append(row)
    for label, where in doubtful.items():
        if label not in known:
            raise BadData(
                f"{where}: a comment, or a word with the label {label!r}, "
                "which no other word has? Remove comments that have as many columns as words"
            )


class Layout:
    """How the columns of a CoNLL file stand, by its first word and the comments before it. ``word``
    and ``label`` are indices of columns; ``header`` is the line that names them, 0 if there is
    none. ``tabs``: columns are separated by tabs; ``indexed``: the first one counts words.

    Raises:
        BadData: it has no label, or a column is not there.
    """

    def __init__(self, path: Path, form: TextFormat) -> None:
        names: list[str] = []
        for number, line in enumerate(read_lines(path), 1):
            row, self.header = words_of(line), 0
            if line.startswith(NAMES):
                names = words_of(line.removeprefix(NAMES))
            if not row or row[0] == DOCUMENT or line.startswith(COMMENT):
                continue
            where, (text, label) = f"{path}, line {number:,}", form.columns
            if len(row) < 2:
                raise BadData(f"{where}: 1 column instead of a word and its label")
            if label in row[1:]:
                names, self.header = row, number
            self.width, self.tabs = len(row), "\t" in line
            self.word = place_of(text, names, len(row), where, "text", 1)
            self.label = place_of(label, names, len(row), where, "label", len(row))
            counts = row[0].isdecimal() or RANGE.fullmatch(row[0]) is not None
            self.indexed = self.word > 0 and counts
            return
        raise BadData(f"{path}: no text")

    def is_no_word(self, line: str, row: Sequence[str], begins: bool) -> bool:
        """Whether a line is a comment, a range of words or an empty word. ``begins``: no word of
        the sentence stands before it, as it is with comments. A comment that has as many columns
        as words may differ in what separates them, or be ``# KEY = VALUE``.
        """
        if self.indexed:
            return line.startswith(COMMENT) or RANGE.fullmatch(row[0]) is not None
        head, tab, _ = line.partition("\t")
        separated = bool(tab) == self.tabs and not (self.tabs and " " in head)
        separated = separated and row[::2][:2] != [COMMENT, "="]
        return line.startswith(COMMENT) and (not separated or (begins and len(row) != self.width))


def place_of(
    column: str, names: Sequence[str], width: int, where: str, unnamed: str, usual: int
) -> int:
    """The index of a column of a CoNLL file that is given by its name or its number from 1. Where
    columns have no names it is the ``usual`` one if the option has its default, ``unnamed``.
    """
    if column in names:
        return names.index(column)
    number = str(usual) if column == unnamed and not names else column
    if not (number.isdecimal() and 1 <= int(number) <= width):
        raise BadData(
            f"{where}: no column {column} among {' '.join(names) or width}; in a CoNLL file "
            f"data.{unnamed}_column takes a number, here {usual} by default, or a name that the "
            "first line gives"
        )
    return int(number) - 1


COMMENT, NAMES = "#", "# global.columns ="
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

BLANK = "a blank line; remove it"
CARRIAGE_RETURN = (
    "a carriage return inside the line, which some programs read as a line end; "
    "replace it by a space, or by a line feed if it should end the line"
)


def columns(row: Sequence[str]) -> str:
    """``"1 column"``, ``"3 columns"``"""
    return f"{len(row)} column{'s' * (len(row) != 1)}"


def check_delimiter(names: Sequence[str], path: Path, form: TextFormat) -> None:
    """Refuse a ``.csv`` whose first row is one name, made of the columns and another delimiter."""
    for sign in ";|\t,":
        columns = names[0].split(sign)
        if len(names) == 1 < len(columns) and names[0] not in form.columns:
            raise BadData(
                f"{path}: the columns are not separated by {form.delimiter!r} but by "
                f"{sign!r}; set data.delimiter to it"
            )


def no_column(column: str, names: Collection[str], where: str) -> BadData:
    """The error for a column that is missing, or there twice."""
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

    Raises:
        BadData: it is a list of another form, such as one of NumPy: ``['x' 'y']``.
    """
    text = text.strip()
    if text[:1] + text[-1:] not in ("[]", "()", "{}"):
        return None
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = parse(text)
            # Python joins 'x' 'y': what is read has to have the same signs
            same = parse is json.loads or marks(repr(found)) == marks(text)
            if same and isinstance(found, list | tuple | set):
                return [*found]
    if text[1] in "'\"" or (text[0] == "[" and any(sign in text for sign in ", ")):
        raise BadData(
            f"{where}: {column!r} is {text[:40]}, which is no list in JSON: write "
            '["x", "y"], or the items with what separates them'
        )
    return None


def marks(text: str) -> list[str]:
    """The characters of a text without spaces, sorted, as a set has no order."""
    return sorted("".join(text.split()))


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
                return spaced(texts, column, where)
            return json.dumps(texts, ensure_ascii=False)
    if isinstance(value, bool) or (isinstance(value, float) and isinstance(column, Numbers)):
        return json.dumps(value)
    if isinstance(value, str | int):
        return check_unicode(str(value), where)
    if value is None:
        raise BadData(f"{where}: {column!r} is empty")
    instead = ""
    if isinstance(value, float):
        instead = (
            f". A label is text or a whole number. For numbers, set {task_for('number')}; or turn "
            "ranges of numbers into classes, such as low and high"
        )
    elif isinstance(value, list | tuple | set):
        instead = (
            ". A cell is one text or one label: join words with spaces; for several labels of a "
            f"text, set {task_for('several')}"
        )
    what = type(value).__name__
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


def read_lines(path: Path) -> Generator[str, None, None]:
    """The lines of a file, plain or ``.gz``, without their ends.

    Raises:
        BadData: the file cannot be read, or is not UTF-8; the message names the line.
    """
    try:
        with path.open("rb") as file:
            packed = path.suffix == ".gz"
            stream: Any = io.BufferedReader(gzip.GzipFile(fileobj=file)) if packed else file
            yield from decoded(stream, str(path))
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from None


def decoded(stream: Iterable[bytes], name: str) -> Generator[str, None, None]:
    """The lines of an open file; errors call it ``name``.

    Raises:
        BadData: as :func:`read_lines`.
    """
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
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadData(
            f"{name}: damaged after line {number:,} ({error}); download or compress it again"
        ) from None
    except OSError as error:
        raise BadData(f"{name}: {error.strerror or error}") from None


def not_utf8(line: bytes, place: int, name: str, number: int) -> BadData:
    """The error for a byte of a line."""
    return BadData(
        f"{name}, line {number:,}: not UTF-8 (byte 0x{line[place]:02x} at position {place + 1}). "
        "Convert a copy, iconv -f ENCODING -t UTF-8 FILE > COPY, where ENCODING is the name of the "
        "encoding in which the file was written, one of iconv -l"
    )


def check_unicode(text: str, where: str) -> str:
    """The text itself, if it can be encoded.

    Raises:
        BadData: it holds a lone surrogate, which JSON and Python strings can hold and UTF-8 cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadData(
            f"{where}: {text[error.start]!r} is a lone surrogate (half of a character), "
            "which UTF-8 cannot encode"
        ) from None
    return text


def find_file(*paths: Path) -> Path | None:
    """The first of these paths that is a file; each is tried as it is and with ``.gz``."""
    for path in paths:
        for name in (path, path.with_name(path.name + ".gz")):
            if name.is_file():
                return name
    return None


def missing(folder: Path, names: list[str], instead: str = "") -> BadData:
    """The error for files that are not in a folder. ``instead`` names files that would do too."""
    wanted = " and ".join(names) + (f" (or {instead})" if instead else "")
    if not folder.is_dir():
        return BadData(f"no folder {folder}, where {wanted} should be")
    beside = [path.name for path in folder.iterdir() if path.is_file()]
    close = did_you_mean(names[0], beside)
    split = names[0].partition(".")[0]
    other = f". data.{split} takes other names, and patterns" if split in ("train", "val") else ""
    return BadData(f"no {wanted} in {folder}, plain or .gz.{close} There: {listing(beside)}{other}")
