"""Rows that are not read from files: given in Python, as a list of dicts or tuples, a pandas table,
a ``datasets.Dataset`` or any other sequence; or data sets of Hugging Face's library ``datasets``,
from its hub, by name, or from a folder that its ``save_to_disk`` wrote. Since version 4 it runs no
code of a data set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tfzoo.base import cache
from tfzoo.data.table import NESTED, Row, Text, TextFormat
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


def given_rows(rows: Any, columns: tuple[str, str], path: str) -> Text:
    """The pairs of text in rows that were given in Python. A row is a dict with both ``columns``,
    or a tuple of them; a column that is a pair of texts is two of these. A class that a
    ``datasets.Dataset`` stores as a number is given by its name. ``path`` is the name of the rows
    in error messages.

    Raises:
        BadOption: the rows have no length or no index, or are a dict.
        BadData: a data set lacks a column; while iterating: a row is something else, lacks a
            column, or has a cell that is not text.
    """
    kind, classes = type(rows).__name__, dict[str, Any]()
    form = TextFormat(columns)
    if is_from("pandas", "DataFrame", rows):
        rows = rows.astype(object).where(rows.notna(), None).to_dict("records")
    if isinstance(rows, Mapping):
        raise BadOption(
            f"{path} is of type {kind}; it takes rows, as in [{{{columns[0]!r}: ..., "
            f"{columns[1]!r}: ...}}, ...]. Several splits in one dict: dataset="
        )
    if isinstance(rows, bytes) or not (hasattr(rows, "__len__") and hasattr(rows, "__getitem__")):
        raise BadOption(
            f"{path} is of type {kind}, which cannot be read several times by index; give a list: "
            "list(rows)"
        )
    if is_from("datasets", "Dataset", rows):
        found = rows.column_names
        if NESTED not in found:
            form.check_names(found, path)
        read = [name for name in (*form.names, NESTED) if name in found]
        rows = rows.with_format(None).select_columns(read)
        for name, feature in rows.features.items():
            if hasattr(one := getattr(feature, "feature", feature), "int2str"):
                classes[name] = one
    return Text(path, partial(pairs_in, rows, form, classes, path))


def pairs_in(rows: Any, form: TextFormat, classes: Mapping[str, Any], path: str) -> Iterator[Row]:
    """The rows of :func:`given_rows`, with their places as Python names them."""
    names = form.names
    for number, row in zip(range(len(rows)), rows, strict=False):
        where = f"{path}[{number}]"
        if isinstance(row, tuple | list) and len(row) == len(names):
            row = dict(zip(names[::-1], row[::-1], strict=True))  # of equal names the first counts
        if isinstance(row, Mapping):
            named = {
                column: class_of(kind, row[column], f"{where}: {column!r}")
                for column, kind in classes.items()
            }
            yield form.row({**row, **named}, where)
            continue
        kind = type(row).__name__
        if isinstance(row, tuple | list):
            kind += f" of {len(row)}"
            kind += "; for pairs of texts, set data.text_column to two names" * (len(row) == 3)
        wanted = f"({', '.join(names)}) or {{{', '.join(f'{name!r}: ...' for name in names)}}}"
        raise BadData(f"{where}: a row is {wanted}, not a {kind}")


def class_of(kind: Any, value: Any, where: str) -> Any:
    """The name of a class, or those of several. ``kind`` is a ``datasets.ClassLabel``."""
    try:
        return value if value is None else kind.int2str(value)
    except ValueError:
        raise BadData(
            f"{where} is {value}, which is no class: this split has no labels; choose another"
        ) from None


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
