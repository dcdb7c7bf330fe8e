"""The token ids of many sentences in one flat array, in memory or in memory-mapped files."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64] | NDArray[np.int32]


class Sentences:
    """The ids of n sentences, without BOS and EOS. Sentence i is
    ``ids[offsets[i]:offsets[i + 1]]``.
    """

    def __init__(self, ids: Integers, offsets: Integers) -> None:
        self.ids, self.offsets = ids, offsets
        self.lengths: NDArray[np.int64] = np.diff(offsets).astype(np.int64)

    @classmethod
    def of(cls, sentences: list[list[int]]) -> Sentences:
        """The same from lists of ids, in memory."""
        ids, lengths = flat(sentences)
        return Sentences(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    def matrix(
        self, rows: Integers, fill: int, lengths: NDArray[np.int64], width: int
    ) -> NDArray[np.int64]:
        """``(b width)`` the first ``lengths`` ids of some rows, and ``fill`` behind them."""
        column = np.arange(width)
        inside = column < lengths[:, None]
        found = np.full(inside.shape, fill, np.int64)
        found[inside] = self.ids[(self.offsets[rows][:, None] + column)[inside]]
        return found


class Encoded(Sentences):
    """Sentences in two files: ``<path>.ids``, 32-bit integers, and ``<path>.offsets``, n + 1 64-bit
    integers, of an entry of the cache that is whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            mapped(path.with_suffix(".ids"), "<i4"), mapped(path.with_suffix(".offsets"), "<i8")
        )

    def __reduce__(self) -> tuple[type[Encoded], tuple[Path]]:
        # a worker process gets the path and opens the files, instead of a copy of the ids
        return Encoded, (self.path,)


def write(path: Path, chunks: Iterable[list[list[int]]]) -> None:
    """Write the files of an :class:`Encoded`, some sentences at a time."""
    counts = [np.zeros(1, "<i8")]
    with path.with_suffix(".ids").open("wb") as file:
        for sentences in chunks:
            ids, lengths = flat(sentences)
            ids.tofile(file)
            counts.append(lengths)
    np.cumsum(np.concatenate(counts)).tofile(path.with_suffix(".offsets"))


def flat(sentences: list[list[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All ids in one array, and the length of each sentence."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    total = int(lengths.sum())
    return np.fromiter(chain.from_iterable(sentences), dtype=np.int32, count=total), lengths


def mapped(path: Path, dtype: str) -> Integers:
    """The integers in a file, memory-mapped; an empty file cannot be."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)
