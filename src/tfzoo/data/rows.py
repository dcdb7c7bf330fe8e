"""Rows that are not read from files: given in Python, as a list of dicts or tuples, a pandas table,
a ``datasets.Dataset`` or any other sequence; or data sets of Hugging Face's library ``datasets``,
from its hub, by name, or from a folder that its ``save_to_disk`` wrote. Since version 4 it runs no
code of a data set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tfzoo.base import cache
from tfzoo.data.pairs import Pair, names_of
from tfzoo.data.table import NESTED, cell, no_column, text_of
from tfzoo.errors import BadData, BadOption, UnknownName


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


def split_names(
    found: Mapping[str, Any], name: str, train: Any, val: Any, tests: Mapping[str, Any] | None
) -> dict[str, str]:
    """The names that a data set has for tfzoo's splits: train, val if there is one, and the test
    sets. Splits that are not given are looked up under their usual names.

    A split that is given as a test set is never used for ``val``: no checkpoint may be selected on
    a test set.

    Raises:
        BadOption: a split is given by something else than a name.
        UnknownName: there is no such split.
    """
    if not all(isinstance(split, str | None) for split in (train, val, *(tests or {}).values())):
        raise BadOption(f"{name} has splits; data.train, data.val and data.test name them")
    wanted: dict[str, str | None] = {
        "train": train or "train",
        "val": val or first(found, ("validation", "val", "dev"), tests or {}),
    }
    wanted |= tests if tests is not None else {"test": first(found, ("test",), wanted)}
    names = {ours: theirs for ours, theirs in wanted.items() if theirs}
    for split in names.values():
        if split not in found:
            raise UnknownName(f"split of {name}", split, found)
    return names


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` of the library ``datasets`` wrote this folder."""
    single = ("state.json", "dataset_info.json")
    return (folder / "dataset_dict.json").is_file() or all(
        (folder / name).is_file() for name in single
    )


def saved(folder: Path) -> Mapping[str, Any]:
    """The splits in a folder that ``save_to_disk`` wrote; a single data set is training's."""
    from datasets import DatasetDict, load_from_disk

    try:
        found = load_from_disk(str(folder))
    except Exception as error:  # of many classes, from several libraries
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        raise BadData(f"cannot load the data set in {folder} ({why}); save it again") from None
    return found if isinstance(found, DatasetDict) else {"train": found}


def fetched(name: str) -> Mapping[str, Any]:
    """All splits of a data set; ``owner/name:config`` selects one of several configurations.

    Raises:
        BadOption: the name is a path.
        BadData: the data set cannot be downloaded.
    """
    from datasets import load_dataset

    if Path(name).expanduser().exists():
        raise BadOption(
            f"data.name {name!r} is a path; data.name is a data set of Hugging Face's hub, "
            "data.root a folder"
        )
    repository, _, config = name.partition(":")
    folder = cache.folder() / cache.SHELF / "hub"
    try:
        found: Mapping[str, Any] = load_dataset(repository, config or None, cache_dir=str(folder))
    except Exception as error:  # of many classes, from several libraries
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        raise BadData(
            f"cannot load the data set {name!r} ({why}). Check the name (owner/name, or "
            "owner/name:config) and that huggingface.co can be reached; without a network, give "
            "local files: data.root"
        ) from None
    return found


def first(found: Mapping[str, Any], names: Sequence[str], taken: Mapping[str, Any]) -> str | None:
    """The first of these names that the data set has and that is not taken."""
    return next((name for name in names if name in found and name not in taken.values()), None)


def is_from(package: str, cls: str, value: object) -> bool:
    """Whether a value is an instance of a class of a package. Does not import the package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(value, getattr(module, cls, ()))
