"""A part of the training text that is held out for validation."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from tfzoo.data.code_fingerprint import code_fingerprint
from tfzoo.data.prepare import Examples
from tfzoo.errors import BadData


class ValidationSplit:
    """The held-out part of some rows, or (``held_out=False``) the rest of them.

    A row is held out if a hash of the seed and of its first column is below ``fraction``.

    Raises (while iterating):
        BadData: this part has no row.
    """

    def __init__(self, whole: Examples, fraction: float, seed: int, *, held_out: bool) -> None:
        self.whole, self.fraction, self.seed, self.held_out = whole, fraction, seed, held_out
        self.path = getattr(whole, "path", "train")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        empty = True
        for row in self.whole:
            if self._belongs(row):
                yield row
                empty = False
        if empty:
            part = "val" if self.held_out else "training"
            raise BadData(
                f"{self.path}: nothing is left for {part} with data.val_fraction "
                f"{self.fraction:g}; change it, or give data.val"
            )

    def stat_fingerprint(self) -> str | None:
        """See :func:`tfzoo.data.lines.stat_fingerprint`."""
        known = self.whole.stat_fingerprint() if hasattr(self.whole, "stat_fingerprint") else None
        code = code_fingerprint(type(self.whole))
        return known and f"{known}\n{code} {self.fraction} {self.seed} {self.held_out}"

    def location(self, row: int) -> str:
        """Where a row stands in the whole text, for an error message."""
        rows = (i for i, one in enumerate(self.whole) if self._belongs(one))
        i = next(i for k, i in enumerate(rows) if k == row)
        found: str = self.whole.location(i)  # type: ignore[attr-defined]  # a Table or ParallelText
        return found

    def _belongs(self, row: tuple[str, str]) -> bool:
        text = row[0].encode("utf-8", "surrogatepass")
        salt = self.seed.to_bytes(8, "big", signed=True)
        digest = blake2b(text, digest_size=8, salt=salt).digest()
        return (int.from_bytes(digest, "big") < self.fraction * 2**64) == self.held_out
