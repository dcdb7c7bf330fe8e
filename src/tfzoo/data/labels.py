"""Checks of the labels of a data set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from tfzoo.base.registry import task_for
from tfzoo.data.prepare import Examples, location
from tfzoo.errors import BadData, listing

MOST_NUMBERS = 20
"""The most labels that may all be numbers with fractions, such as stars of a review."""

NUMBER = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")


def check_classes(labels: Sequence[str], splits: Mapping[str, Examples]) -> None:
    """Check that the labels of some splits can be classes.

    Raises:
        BadData: fewer than two labels, one with spaces around it or a line break inside, or numbers
            with fractions that are too many to be classes.
    """
    for label in labels:
        if label != label.strip() or len(label.splitlines()) > 1:
            raise BadData(
                f"{_first(splits, label)}: the label {label!r} has spaces around it, "
                "or more than one line"
            )
    if len(labels) < 2:
        where = getattr(splits["train"], "path", "train")
        found = f"every example has the label {labels[0]!r}" if labels else "no example has a label"
        raise BadData(f"{where}: {found}; a classifier needs two labels")
    if len(labels) > MOST_NUMBERS and all(NUMBER.fullmatch(label) for label in labels):
        raise BadData(
            f"{getattr(splits['train'], 'path', 'train')}: the labels are {len(labels):,} numbers "
            f"with fractions; set {task_for('number')}, or turn ranges of numbers into classes"
        )


def _first(splits: Mapping[str, Examples], label: str) -> str:
    """Where a label occurs first."""
    return next(
        location(rows, i, name)
        for name, rows in splits.items()
        for i, (_, other) in enumerate(rows)
        if other == label
    )


def label_error(
    rows: Examples, labels_of: Callable[[str], Iterable[str]], labels: Sequence[str], name: str
) -> BadData:
    """The error for the first label in a split that is none of ``labels``."""
    known = set(labels)
    row, label = next(
        (row, label)
        for row, (_, cell) in enumerate(rows)
        for label in labels_of(cell)
        if label not in known
    )
    what = f"the label {label!r} is not one of the labels of training: {listing(labels)}"
    return BadData(f"{location(rows, row, name)}: {what if label.strip() else 'no label'}")
