"""Words that are hidden while training: each token becomes the unknown token with a given
probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfzoo.data.encoded import Integers
from tfzoo.data.tokenizer import END, UNKNOWN

STEP, FIRST, SECOND = (
    np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
"""The constants of splitmix64."""


@dataclass(frozen=True)
class WordDropout:
    """Replace each token but the special ones by the unknown token with probability ``share``.

    Which tokens these are is a function of the seed, the epoch, the item and the place in it,
    whatever batch it falls into.
    """

    share: float
    seed: int

    def __call__(self, ids: NDArray[np.int64], rows: Integers, epoch: int) -> NDArray[np.int64]:
        """``ids`` ``(b n)`` of the items ``rows`` ``(b)``."""
        if not self.share:
            return ids
        states = np.full((1, 1), self.seed % 2**64, np.uint64)
        for counters in (
            np.full((1, 1), epoch),
            np.asarray(rows)[:, None],
            np.arange(ids.shape[1])[None],
        ):
            states = mixed(states + counters.astype(np.uint64))
        hidden = states >> np.uint64(11) < np.uint64(self.share * 2**53)
        return np.where(hidden & (ids > END), UNKNOWN, ids)


def mixed(counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 bits that look random for each counter (splitmix64, doi:10.1145/2660193.2660195). Arrays
    overflow silently, as they should.
    """
    z = (counters + np.uint64(1)) * STEP
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))
