"""Rows that are given in Python: a list of dicts or tuples, a pandas table, a ``datasets.Dataset``,
or any other sequence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

from tfzoo.data.hub import HubText
from tfzoo.data.pairs import Pair, names_of
from tfzoo.data.table import cell, no_column, text_of
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
    both ``columns``, or a tuple of them; a column that is a pair of texts is two of these. ``path``
    is the name of the rows in error messages.

    Raises (while iterating):
        BadData: a row is something else, lacks a column, or has a cell that is not text.
    """

    def __init__(self, rows: Rows, columns: tuple[str, str], path: str) -> None:
        self.rows, self.columns, self.path = rows, columns, path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for i in range(len(self.rows)):
            yield self._pair(self.rows[i], self.location(i))

    def location(self, row: int) -> str:
        """The row as Python names it, for an error message."""
        return f"{self.path}[{row}]"

    def _pair(self, row: Any, where: str) -> tuple[str, str]:
        first, second = self.columns
        names = [name for column in self.columns for name in names_of(column)]
        if isinstance(row, tuple | list) and len(row) == len(names):
            if not isinstance(first, Pair):
                return text_of(row[0], first, where), text_of(row[1], second, where)
            row = dict(zip(names, row, strict=True))
        if isinstance(row, Mapping):
            return cell(row, first, where), cell(row, second, where)
        found = type(row).__name__
        if isinstance(row, tuple | list):
            found += f" of {len(row)}"
            found += "; for pairs of texts, set data.text_column to two names" * (len(row) == 3)
        wanted = f"({', '.join(names)}) or {{{', '.join(f'{name!r}: ...' for name in names)}}}"
        raise BadData(f"{where}: a row is {wanted}, not a {found}")


class GivenDataset(HubText):
    """Two columns of a ``datasets.Dataset``."""

    def location(self, row: int) -> str:
        """The row as Python names it, for an error message."""
        return f"{self.path}[{row}]"


def given_rows(rows: Any, columns: tuple[str, str], path: str) -> GivenRows | GivenDataset:
    """Make an iterable of the pairs of text in rows that were given in Python. ``path`` is the name
    of the rows in error messages.

    Raises:
        BadOption: the rows have no length or no index, or are a dict.
        BadData: a table or data set lacks a column.
    """
    name = type(rows).__name__
    if is_from("datasets", "Dataset", rows):
        return GivenDataset(rows.with_format(None), columns, path)
    if is_from("pandas", "DataFrame", rows):
        return GivenRows(table_rows(rows, columns, path), columns, path)
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


def table_rows(frame: Any, columns: tuple[str, str], path: str) -> list[tuple[Any, ...]]:
    """The cells of columns of a pandas table; None where one is missing."""
    names = [str(name) for name in frame.columns]
    wanted = [name for column in columns for name in names_of(column)]
    for column in wanted:
        if names.count(column) != 1:
            raise no_column(column, names, path)
    cells = frame[wanted].astype(object)
    return list(cells.where(cells.notna(), None).itertuples(index=False, name=None))


def is_from(package: str, cls: str, value: object) -> bool:
    """Whether a value is an instance of a class of a package. Does not import the package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(value, getattr(module, cls, ()))
