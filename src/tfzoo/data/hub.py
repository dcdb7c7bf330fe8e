"""Data sets of Hugging Face's hub, by name; fetched once into the cache, by their library
``datasets``, which runs no code of theirs.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfzoo.data import cache
from tfzoo.data.table import NESTED, cell, no_column
from tfzoo.errors import BadData, BadOption, UnknownName

AT_ONCE = 1000
"""Rows that are read at once."""


class HubText:
    """Two columns of one split, as pairs of text; a class that is kept as a number is given by its
    name. Iterate as often as you like.

    Raises (while iterating):
        BadData: a column that is not there, a cell that is no text.
    """

    def __init__(self, rows: Any, columns: tuple[str, str], path: str) -> None:
        self.columns, self.path = columns, path
        names = list(rows.column_names)
        for column in columns:
            if column not in names and NESTED not in names:
                raise no_column(column, names, path)
        self.rows = rows.select_columns([name for name in (*columns, NESTED) if name in names])
        self.classes: dict[str, list[str]] = {
            column: rows.features[column].names
            for column in columns
            if hasattr(rows.features.get(column), "names")
        }

    def __iter__(self) -> Iterator[tuple[str, str]]:
        row = 0
        for batch in self.rows.iter(AT_ONCE):
            for values in zip(*batch.values(), strict=True):
                yield self._pair(dict(zip(batch, values, strict=True)), row)
                row += 1

    def place(self, row: int) -> str:
        """Where a pair stands, for a message."""
        return f"{self.path}, row {row + 1:,}"

    def _pair(self, values: Mapping[str, Any], row: int) -> tuple[str, str]:
        first, second = (self._cell(values, column, row) for column in self.columns)
        return first, second

    def _cell(self, values: Mapping[str, Any], column: str, row: int) -> str:
        names, value = self.classes.get(column), values.get(column)
        if names is None or not isinstance(value, int):
            return cell(values, column, self.place(row))
        if not 0 <= value < len(names):
            raise BadData(
                f"{self.place(row)}: {column!r} is {value}, which is no class: this split has no labels to know; choose another"
            )
        return names[value]


def hub_texts(
    name: str,
    columns: tuple[str, str],
    train: str | None,
    val: str | None,
    tests: Mapping[str, str] | None,
) -> dict[str, HubText]:
    """The splits of a data set by our names: train, val if there is one, tests. Those that are not
    named are found.

    A split that is named for a test is not found for val: nothing must be chosen by what is
    reported.

    Raises:
        BadOption: a name that is a path.
        BadData: the data set cannot be reached, or has no such split or column.
    """
    if Path(name).expanduser().exists():
        raise BadOption(
            f"data.name {name!r} is a path; data.name names a data set of Hugging Face's hub, data.root a folder"
        )
    found = fetched(name)
    wanted = {
        "train": train or "train",
        "val": val or first(found, ("validation", "val", "dev"), tests or {}),
    }
    wanted |= tests if tests is not None else {"test": first(found, ("test",), wanted)}
    for split in filter(None, wanted.values()):
        if split not in found:
            raise UnknownName(f"split of {name}", split, found)
    return {
        ours: HubText(found[theirs], columns, f"{name}, split {theirs!r}")
        for ours, theirs in wanted.items()
        if theirs
    }


def fetched(name: str) -> Mapping[str, Any]:
    """All splits of a data set; ``owner/name:config`` names one of several configurations."""
    from datasets import disable_progress_bars, enable_progress_bars, load_dataset

    repository, _, config = name.partition(":")
    print(f"data: {name} from huggingface.co, or from the cache", file=sys.stderr)
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)  # else it counts every attempt
    disable_progress_bars()
    try:
        found: Mapping[str, Any] = load_dataset(
            repository, config or None, cache_dir=str(cache.folder() / cache.SHELF / "hub")
        )
    except (
        Exception
    ) as error:  # of the library, of what it fetches with, of the system: too many to name
        why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        raise BadData(
            f"cannot load the data set {name!r} ({why}). It needs a network that reaches huggingface.co, and a name as it stands there "
            "(owner/name, or owner/name:config); without a network, give local files: data.root"
        ) from None
    finally:
        logger.setLevel(level)
        enable_progress_bars()
    return found


def first(
    found: Mapping[str, Any], names: Sequence[str], taken: Mapping[str, str | None]
) -> str | None:
    """The first of these names that is there, and is not taken."""
    return next((name for name in names if name in found and name not in taken.values()), None)
