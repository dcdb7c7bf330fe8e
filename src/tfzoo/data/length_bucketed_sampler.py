"""Batches of pairs of like length: little padding, an order that follows from seed and epoch alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from tfzoo.errors import BadData

Rows = NDArray[np.int64]

MIXING = (1.0, 0.5, 0.0)
"""By how many tokens a length is blurred, up or down, before pairs are sorted; the first that gives
few enough batches counts.
"""

SPARE = 1.05
"""How many batches an epoch has, as a multiple of what exact sorting needs: blurring needs some
more.
"""


class Batch(list[int]):
    """The indices of one batch, which know the epoch that they were drawn for, also in a worker."""

    epoch = 0


class LengthBucketedSampler(Sampler[list[int]]):
    """Batches of at most ``max_tokens`` tokens, padding counted: rows times the longest sentence,
    on either side.

    A sentence counts its end too. One that is longer than ``max_tokens`` is a batch of its own.

    The batches of an epoch are a function of ``(seed, epoch)``: lengths are blurred a little, pairs
    sorted by them and cut into batches, batches shuffled. Their number is the same in every epoch;
    to get there the largest batches are split, and nothing is dropped or repeated. Without
    ``shuffle``, the longest pairs come first, and every epoch is the same.

    Of ``world`` processes this is number ``rank``; they take turns. Each gets equally many batches,
    of the order that one process alone would see; only the last turn is cut up so that it is enough
    for all.

    As a DataLoader's ``batch_sampler`` it is told the epoch by Lightning's Trainer, through
    :attr:`sampler`.

    Raises:
        BadData: there are fewer pairs than processes.
    """

    def __init__(
        self,
        source: Rows,
        target: Rows,
        max_tokens: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
    ) -> None:
        if len(source) < world:
            raise BadData(
                f"{len(source)} texts are too few for {world} processes; use fewer devices"
            )
        self.source, self.target = np.asarray(source) + 1, np.asarray(target) + 1
        self.max_tokens, self.seed, self.rank, self.world, self.shuffle = (
            max_tokens,
            seed,
            rank,
            world,
            shuffle,
        )
        self.epoch = 0
        self.start = 0
        self._drawn: tuple[int, list[Rows]] | None = None
        """An epoch's number and batches, drawn to be counted and not yet used."""
        fewest = len(self._cut(self._order(None, 0.0)))
        self.count = min(int(fewest * SPARE) if shuffle else fewest, len(source))
        self.batches = min(-(-self.count // world) * world, len(source) // world * world)

    @property
    def sampler(self) -> LengthBucketedSampler:
        """This object: Lightning calls ``set_epoch`` on the ``sampler`` of a batch sampler."""
        return self

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """What the next ``iter`` gives: this epoch, without its first ``start`` batches (of this
        process).
        """
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        """Batches of one process in a whole epoch."""
        return self.batches // self.world

    def __iter__(self) -> Iterator[list[int]]:
        drawn, self._drawn = self._drawn, None
        batches = drawn[1] if drawn and drawn[0] == self.epoch else self.epoch_batches(self.epoch)
        mine = batches[self.rank :: self.world]
        return (self._batch(rows, self.epoch) for rows in mine[self.start :])

    def epoch_batches(self, epoch: int) -> list[Rows]:
        """The batches of an epoch, those of all processes."""
        if not self.shuffle:
            return self._for_all(self._cut(self._order(None, 0.0)))
        for mixing in MIXING:
            random = np.random.default_rng([self.seed, epoch])
            batches = self._cut(self._order(random, mixing))
            if len(batches) <= self.count:
                break
        batches = split_largest(batches, self.count)
        return self._for_all([batches[i] for i in random.permutation(len(batches))])

    def padding(self) -> float:
        """The share of padding among all tokens of an epoch, both sides together."""
        batches = self.epoch_batches(self.epoch)
        self._drawn = self.epoch, batches
        sizes = np.array([len(rows) for rows in batches])
        order, begins = np.concatenate(batches), np.cumsum(sizes) - sizes
        padded = sum(
            int((sizes * np.maximum.reduceat(side[order], begins)).sum())
            for side in (self.source, self.target)
        )
        return 1 - int(self.source.sum() + self.target.sum()) / padded

    def _for_all(self, batches: list[Rows]) -> list[Rows]:
        """These batches in this order, but equally many for each process: the last turn is cut up,
        or more turns where it has too few rows.

        Where each text fills a batch there is nothing to cut: then the smallest batches are joined,
            over the limit.
        """
        width = np.maximum(self.source, self.target)
        while len(batches) > self.batches:
            cells = [len(rows) * int(width[rows].max()) for rows in batches]
            first, second = sorted(np.argsort(cells, kind="stable")[:2])
            batches[first] = np.concatenate([batches[first], batches.pop(second)])
        kept = len(batches) // self.world * self.world
        while sum(map(len, batches[kept:])) < self.batches - kept:
            kept -= self.world
        return [*batches[:kept], *split_largest(batches[kept:], self.batches - kept)]

    def _batch(self, rows: Rows, epoch: int) -> Batch:
        batch = Batch(rows.tolist())
        batch.epoch = epoch
        return batch

    def _order(self, random: np.random.Generator | None, mixing: float) -> Rows:
        """All pairs, the longest first: by their longer side, and among equals by how much the
        source is longer.

        The second runs up and down in turn, so that neighbours are alike also where the longer side
        changes.
        """
        sides: list[NDArray[Any]] = [self.source, self.target]
        if random is not None:
            sides = [side + random.uniform(-mixing, mixing, len(side)) for side in sides]
        source, target = sides
        longer = narrow(np.floor(np.maximum(source, target)))
        surplus = np.where(longer % 2 == 0, source - target, target - source)
        return np.lexsort((surplus if random else narrow(surplus), -longer))

    def _cut(self, order: Rows) -> list[Rows]:
        """Batches that are as long as ``max_tokens`` allows, from pairs in this order."""
        width = np.maximum(self.source, self.target)[order]
        batches, first = [], 0
        while first < len(order):
            reach = max(
                1, self.max_tokens // int(width[first])
            )  # no batch that begins here can have more rows
            longest = np.maximum.accumulate(width[first : first + reach])
            rows = max(
                1,
                int(
                    np.searchsorted(
                        longest * np.arange(1, len(longest) + 1), self.max_tokens, side="right"
                    )
                ),
            )
            batches.append(order[first : first + rows])
            first += rows
        return batches


def narrow(x: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers, in 16 bits where they fit: NumPy sorts these by radix."""
    return x.astype(np.int16 if np.abs(x).max(initial=0) < 2**15 else np.int64)


def split_largest(batches: list[Rows], count: int) -> list[Rows]:
    """``count`` batches from fewer, by cutting the one with most rows in two until there are
    enough.
    """
    import heapq

    heap = [(-len(rows), i, rows) for i, rows in enumerate(batches)]
    heapq.heapify(heap)
    while len(heap) < count:
        size, i, rows = heapq.heappop(heap)
        half = (-size + 1) // 2
        heapq.heappush(heap, (-half, i, rows[:half]))
        heapq.heappush(heap, (size + half, len(heap) + count, rows[half:]))
    return [rows for _, _, rows in sorted(heap, key=lambda item: item[1])]
