"""What generated data sets share: splits that are drawn at random and have no text in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

from tfzoo.base.values import check_range
from tfzoo.data.progress import watched
from tfzoo.errors import BadOption

LARGEST = 10_000_000
"""The largest size of a split."""

TRIES = 10_000
"""Texts that are rejected in a row before a split is given up."""

Row = tuple[str, str]


def check_sizes(option: str, **sizes: int) -> None:
    """Check the sizes of splits. ``option`` stands before their names in a message.

    Raises:
        BadOption: a size is out of its range.
    """
    for name, size in sizes.items():
        check_range(f"{option} {name!r}", size, ge=1, le=LARGEST, whole=True)


def draw_splits(
    name: str, sizes: Mapping[str, int], seed: int, draw: Callable[[str, Random], Row]
) -> dict[str, list[Row]]:
    """Rows by split, each from ``draw(split, random)``. No text is in two splits, and only
    ``train`` may repeat one. The size of ``train`` changes no other split.

    Raises:
        BadOption: there are too few different texts.
    """
    found: dict[str, list[Row]] = {}
    scored: set[str] = set()
    for split in [*(split for split in sizes if split != "train"), "train"]:
        random = Random(f"{name} {split} {seed}")
        rows = found[split] = []
        rejected = 0
        for row in watched(endless(split, random, draw), f"generating {split}", sizes[split]):
            if row[0] not in scored:
                rejected = 0
                rows.append(row)
                if split != "train":
                    scored.add(row[0])
            else:
                rejected += 1
            if len(rows) == sizes[split]:
                break
            if rejected == TRIES:
                raise BadOption(
                    f"dataset {name!r}: {split} cannot get {sizes[split]:,} texts that are in no "
                    f"other split; after {len(rows):,} the last {TRIES:,} were repeated"
                )
    return {split: found[split] for split in sizes}


def endless(split: str, random: Random, draw: Callable[[str, Random], Row]) -> Iterator[Row]:
    """The rows of a split before repeated ones are left out."""
    while True:
        yield draw(split, random)
