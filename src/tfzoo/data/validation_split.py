"""A part of training's text for validation, where there is no text of its own."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from tfzoo.data.prepare import Text
from tfzoo.errors import BadData


class ValidationSplit:
    """A share of some rows, or the rest of them: which a row belongs to is a function of the seed
    and its text.
    """

    def __init__(self, whole: Text, share: float, seed: int, *, held: bool) -> None:
        self.whole, self.share, self.seed, self.held = whole, share, seed, held
        self.path = getattr(whole, "path", "train")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        empty = True
        for row in self.whole:
            if self._belongs(row):
                yield row
                empty = False
        if empty:
            part = "val" if self.held else "training"
            raise BadData(
                f"{self.path}: nothing is left for {part} with data.val_fraction {self.share:g}; change it, or give data.val"
            )

    def stamp(self) -> str | None:
        """What tells that the rows have not changed, if anything does."""
        known = self.whole.stamp() if hasattr(self.whole, "stamp") else None
        return known and f"{known}\n{self.share} {self.seed} {self.held}"

    def place(self, row: int) -> str:
        """Where a row stands in the file that was cut."""
        rows = (i for i, one in enumerate(self.whole) if self._belongs(one))
        place: str = self.whole.place(next(i for k, i in enumerate(rows) if k == row))  # type: ignore[attr-defined]
        return place

    def _belongs(self, row: tuple[str, str]) -> bool:
        digest = blake2b(
            row[0].encode("utf-8", "surrogatepass"),
            digest_size=8,
            salt=self.seed.to_bytes(8, "big", signed=True),
        ).digest()
        return (int.from_bytes(digest, "big") < self.share * 2**64) == self.held
