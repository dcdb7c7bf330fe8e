"""Built-in data sets, one per file, and what they share: splits that are drawn at random and have
no text in common.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from tfzoo.base.registry import Entry
from tfzoo.base.values import check_range
from tfzoo.data.prepare import watched
from tfzoo.errors import BadOption

LARGEST = 10_000_000
"""The largest size of a split, and of what has no other bound."""

TRIES = 10_000
"""Texts that are rejected in a row before a split is given up."""

Row = tuple[str, str]


@dataclass(kw_only=True)
class Drawn:
    """A data set whose rows are drawn one by one, which the seed alone decides. A subclass is a
    dataclass of its options, and writes :meth:`draw`. No text is in two splits, and only ``train``
    may repeat one.

    Args:
        train, val, test: the sizes of splits.

    Raises:
        BadOption: a number is out of its range; in ``splits``: there are too few different texts,
            or a row is no pair of texts.
    """

    entry: ClassVar[Entry]
    wanted = "texts that are in no other split"
    """What a split needs enough of, for an error message."""
    train: int = 20_000
    val: int = 1000
    test: int = 1000

    def __post_init__(self) -> None:
        self.sizes = {"train": self.train, "val": self.val, "test": self.test}
        """Of each split, in the order in which they are drawn, except that ``train`` is the last.
        A subclass may add others.
        """
        for name in self.sizes:
            self.check(name)

    def check(self, option: str, ge: int = 1, le: int = LARGEST) -> None:
        """Raise BadOption unless an option is a whole number from ``ge`` to ``le``."""
        name = f"dataset {self.entry.name!r}, option {option!r}"
        check_range(name, getattr(self, option), ge=ge, le=le, whole=True)

    def draw(self, split: str, random: Random) -> Row | None:
        """A row of a split; None if it came out as none that is wanted."""
        raise BadOption(f"dataset {self.entry.name!r} has no method draw, which returns a row")

    def splits(self, seed: int) -> dict[str, list[Row]]:
        """Rows by split, ``train`` first. The size of ``train`` changes no other split."""
        found: dict[str, list[Row]] = {}
        scored: set[str] = set()
        for split in sorted(self.sizes, key=lambda split: split == "train"):
            rows = found[split] = []
            size, rejected = self.sizes[split], 0
            for row in watched(self._endless(split, seed), f"generating {split}", size):
                if row is None or row[0] in scored:
                    rejected += 1
                else:
                    rejected = 0
                    rows.append(row)
                    if split != "train":
                        scored.add(row[0])
                if len(rows) == size:
                    break
                if rejected == TRIES:
                    raise BadOption(
                        f"dataset {self.entry.name!r}: {split} cannot get {size:,} {self.wanted}; "
                        f"after {len(rows):,} the last {TRIES:,} were others or repeated"
                    )
        return {split: found[split] for split in ("train", *found)}

    def _endless(self, split: str, seed: int) -> Iterator[Row | None]:
        """The rows of a split before repeated ones are left out."""
        random = Random(f"{self.entry.name} {split} {seed}")
        while True:
            row = self.draw(split, random)
            if row is not None and [*map(type, row)] != [str, str]:
                raise BadOption(
                    f"dataset {self.entry.name!r}: draw returned {row!r}, which is no pair of "
                    "texts; a label is text, a number too: '6.0'"
                )
            yield row
