"""Token dropout: in training, each token becomes the unknown token with a given probability
(Iyyer et al. 2015, P15-1162, section 2.3, who drop whole words).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.encoded import Integers
from tfzoo.errors import BadOption

STEP, FIRST, SECOND = (
    np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
"""The constants of splitmix64."""


@dataclass(frozen=True)
class TokenDropout:
    """Replace each token, except special ones, by the unknown token with probability ``p``.

    Which tokens are replaced is a function of the seed, the epoch, the example and the position,
    independent of the batch that the example is in.

    Raises:
        BadOption: the tokenizer has no unknown token.
    """

    p: float
    seed: int
    special: SpecialIds

    def __post_init__(self) -> None:
        if self.p and self.special.unk is None:
            raise BadOption("data.token_dropout: this tokenizer has no unknown token; set it to 0")

    def __call__(self, ids: NDArray[np.int64], rows: Integers, epoch: int) -> NDArray[np.int64]:
        """``(b n)`` the ids after dropout; ``ids`` ``(b n)`` are those of the examples ``rows``
        ``(b)``.
        """
        if not self.p:
            return ids
        dropped = fraction(random_bits(self.seed, epoch, rows, ids.shape[1])) < self.p
        ordinary = np.isin(ids, list(self.special.every), invert=True)
        return np.where(dropped & ordinary, np.int64(self.special.unk or 0), ids)


def random_bits(seed: int, epoch: int, rows: Integers, n: int) -> NDArray[np.uint64]:
    """64 pseudo-random bits for each place of the examples ``rows`` ``(b)``, whatever batch they
    are in: ``(b n)``.
    """
    states = np.full((1, 1), seed % 2**64, np.uint64)
    for counters in (np.full((1, 1), epoch), np.asarray(rows)[:, None], np.arange(n)[None]):
        states = mixed(states + counters.astype(np.uint64))
    return states


def fraction(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Bits as numbers from 0 to below 1, each with the same probability."""
    return (bits >> np.uint64(11)) / np.float64(2**53)


def mixed(counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 pseudo-random bits for each counter (splitmix64, doi:10.1145/2660193.2660195), with the
    wrap-around of unsigned integers.
    """
    z = (counters + np.uint64(1)) * STEP
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))
