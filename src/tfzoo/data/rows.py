"""Rows that are given in Python: a list of dicts or tuples, a pandas table, a ``datasets.Dataset``,
or any other sequence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

from tfzoo.data.pairs import Pair, names_of
from tfzoo.data.table import NESTED, cell, no_column, text_of
from tfzoo.errors import BadData, BadOption


class Rows(Protocol):
    """A sequence of rows: it has a length, and an index from 0 gives a row."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


if TYPE_CHECKING:
    Split = str | PathLike[str] | Sequence[str] | Rows
else:
    Split = str | list[str]
    """The text of a split. A recipe gives a path or several; Python may give the rows instead."""


class GivenRows:
    """Iterates over the two cells of each of ``rows``, as often as wanted. A row is a dict with
    both ``columns``, or a tuple of them; a column that is a pair of texts is two of these. A class
    that a ``datasets.Dataset`` stores as a number is given by its name. ``path`` is the name of the
    rows in error messages.

    Raises:
        BadData: a data set lacks a column; while iterating: a row is something else, lacks a
            column, or has a cell that is not text.
    """

    def __init__(self, rows: Any, columns: tuple[str, str], path: str) -> None:
        self.rows, self.columns, self.path = rows, columns, path
        self.names = [name for column in columns for name in names_of(column)]
        self.classes: dict[str, list[str]] = {}
        if is_from("datasets", "Dataset", rows):
            found = self.rows.column_names
            for name in self.names:
                if name not in found and NESTED not in found:
                    raise no_column(name, found, path)
            read = [name for name in (*self.names, NESTED) if name in found]
            self.rows = self.rows.with_format(None).select_columns(read)
            for name, feature in self.rows.features.items():
                if hasattr(one := getattr(feature, "feature", feature), "names"):
                    self.classes[name] = one.names

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for number, row in zip(range(len(self.rows)), self.rows, strict=False):
            yield self._pair(row, self.location(number))

    def location(self, row: int) -> str:
        """The row as Python names it, for an error message."""
        return f"{self.path}[{row}]"

    def _pair(self, row: Any, where: str) -> tuple[str, str]:
        first, second = self.columns
        if isinstance(row, tuple | list) and len(row) == len(self.names):
            if not isinstance(first, Pair):
                return text_of(row[0], first, where), text_of(row[1], second, where)
            row = dict(zip(self.names, row, strict=True))
        if isinstance(row, Mapping):
            for column in self.classes.keys() & row.keys():
                row = {**row, column: self._class(column, row[column], where)}
            return cell(row, first, where), cell(row, second, where)
        found = type(row).__name__
        if isinstance(row, tuple | list):
            found += f" of {len(row)}"
            found += "; for pairs of texts, set data.text_column to two names" * (len(row) == 3)
        wanted = (
            f"({', '.join(self.names)}) or {{{', '.join(f'{name!r}: ...' for name in self.names)}}}"
        )
        raise BadData(f"{where}: a row is {wanted}, not a {found}")

    def _class(self, column: str, value: Any, where: str) -> Any:
        """The name of a class, or those of several."""
        if isinstance(value, list):
            return [self._class(column, one, where) for one in value]
        names = self.classes[column]
        if isinstance(value, int) and not 0 <= value < len(names):
            raise BadData(
                f"{where}: {column!r} is {value}, which is no class: "
                "this split has no labels; choose another"
            )
        return value if value is None else names[value]


def given_rows(rows: Any, columns: tuple[str, str], path: str) -> GivenRows:
    """Make an iterable of the pairs of text in rows that were given in Python. ``path`` is the name
    of the rows in error messages.

    Raises:
        BadOption: the rows have no length or no index, or are a dict.
        BadData: a data set lacks a column.
    """
    name = type(rows).__name__
    if is_from("pandas", "DataFrame", rows):
        rows = rows.astype(object).where(rows.notna(), None).to_dict("records")
    if isinstance(rows, Mapping):
        raise BadOption(
            f"{path} is of type {name}; it takes rows, as in [{{{columns[0]!r}: ..., "
            f"{columns[1]!r}: ...}}, ...]. Several splits in one dict: dataset="
        )
    if isinstance(rows, bytes) or not (hasattr(rows, "__len__") and hasattr(rows, "__getitem__")):
        raise BadOption(
            f"{path} is of type {name}, which cannot be read several times by index; give a list: "
            "list(rows)"
        )
    return GivenRows(rows, columns, path)


def is_from(package: str, cls: str, value: object) -> bool:
    """Whether a value is an instance of a class of a package. Does not import the package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(value, getattr(module, cls, ()))
