"""A part of the training text that is held out for validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from hashlib import blake2b
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from tfzoo.data.table import Row, Text
from tfzoo.errors import BadData

Flags = NDArray[np.bool_]


class Division:
    """Which rows of a text are held out: ``fraction`` of them, rounded, and at least one.

    Rows are held out in the order of a hash of the seed and of their first column, so the choice
    depends on the seed and on the texts and not on their order, and equal texts are on one side.
    Texts that occur more often than rows are still wanted are passed over, so the number is exact
    unless too few texts occur only once (:func:`chosen`).
    """

    def __init__(self, whole: Text, fraction: float, seed: int) -> None:
        self.whole, self.fraction, self.seed = whole, fraction, seed

    @cached_property
    def held_out(self) -> Flags:
        """``(rows)``: reads the text to its end.

        Raises:
            BadData: fewer than two different texts.
        """
        salt = self.seed.to_bytes(8, "big", signed=True)
        texts = (first.encode("utf-8", "surrogatepass") for first, _ in self.whole)
        digests = b"".join(blake2b(text, digest_size=8, salt=salt).digest() for text in texts)
        _, group, counts = np.unique(
            np.frombuffer(digests, ">u8"), return_inverse=True, return_counts=True
        )
        if len(counts) < 2:
            rows = {0: "no rows", 1: "one row"}.get(len(group), f"{len(group):,} rows of one text")
            raise BadData(
                f"{self.whole.path}: {rows}; to hold some out for validation (data.val_fraction) "
                "takes two different texts, as equal ones stay together; or give data.val"
            )
        wanted = max(1, int(self.fraction * len(group) + 0.5))
        flags: Flags = chosen(counts.tolist(), wanted)[group]
        return flags


def chosen(counts: list[int], wanted: int) -> Flags:
    """Which of some groups are taken so that they have ``wanted`` rows: in their order, each that
    is not too large for what is left. Some group is taken, and not all.
    """
    flags, left = np.zeros(len(counts), bool), wanted
    for group, rows in enumerate(counts):
        if rows <= left:
            flags[group], left = True, left - rows
    if not flags.any():
        flags[np.argmin(counts)] = True
    if flags.all():
        flags[np.argmin(counts)] = False
    return flags


def hold_out(splits: Mapping[str, Text], fraction: float, seed: int) -> dict[str, Text]:
    """The splits, with a part of the training text as ``val``."""
    division = Division(splits["train"], fraction, seed)
    return {**splits} | {
        name: Text(division.whole.path, partial(part_of, division, name == "val"))
        for name in ("train", "val")
    }


def part_of(division: Division, held_out: bool) -> Iterator[Row]:
    """The rows that are held out, or the others."""
    return compress(division.whole.rows(), division.held_out == held_out)
