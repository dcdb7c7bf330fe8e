"""Batches of examples of similar length, in an order that depends on seed and epoch alone, and the
loader that goes on in it where a checkpoint was written.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Sampler

from tfzoo.base.values import check_range
from tfzoo.errors import BadData, BadRun

Rows = NDArray[np.int64]

NOISE = (1.0, 0.5, 0.0)
"""Noise that is added to lengths before sorting, in tokens up or down. The first value that gives
few enough batches is used.
"""

SPARE = 1.05
"""The batches of an epoch, as a multiple of what sorting without noise gives: noise needs more."""


class Batch(list[int]):
    """The indices of one batch and the epoch they belong to; a worker process receives both."""

    epoch = 0


class LengthBucketedSampler(Sampler[list[int]]):
    """Batches of at most ``max_tokens`` tokens, with padding: the number of rows times the length
    of the longest, on each of two sides. EOS counts as a token. A longer example is a batch of its
    own.

    The batches of an epoch are a function of ``(seed, epoch)``: lengths get a little noise, the
    examples are sorted by them and cut into batches, and the batches are shuffled. Every epoch has
    the same number of batches; the largest ones are split to reach it, and no example is dropped or
    repeated. Without ``shuffle``, the longest examples come first and all epochs are the same; with
    neither ``shuffle`` nor ``sort``, the examples come in the order of their rows.

    With several processes, process ``rank`` of ``world_size`` gets every ``world_size``-th batch of
    the order that a single process would have. All get the same number: where the last round has
    too few batches, its batches are split.

    Used as the ``sampler`` of a DataLoader with ``batch_size=None``: its data set is indexed by
    whole batches. Lightning's Trainer sets the epoch.

    Args:
        source, target: ``(examples,)`` tokens on each side, without EOS.

    Raises:
        BadData: there are fewer examples than processes.
        BadOption: ``max_tokens`` is under 1.
    """

    def __init__(
        self,
        source: Rows,
        target: Rows,
        max_tokens: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        sort: bool = True,
    ) -> None:
        check_range("max_tokens", max_tokens, ge=1, whole=True)
        if len(source) < world_size:
            raise BadData(
                f"{len(source)} examples are too few for {world_size} processes; use fewer devices"
            )
        self.source, self.target = np.asarray(source) + 1, np.asarray(target) + 1
        self.max_tokens, self.seed = max_tokens, seed
        self.shuffle, self.sort = shuffle, sort
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        self.start = 0
        fewest = len(self._cut(self._order(None, 0.0)))
        self.count = min(int(fewest * SPARE) if shuffle else fewest, len(source))
        rounds = min(-(-self.count // world_size), len(source) // world_size)
        self.batches = rounds * world_size

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Set what the next ``iter`` yields: the batches of this epoch without the first ``start``
        of this process.
        """
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        """Batches of one process in a whole epoch."""
        return self.batches // self.world_size

    def __iter__(self) -> Iterator[list[int]]:
        mine = self.epoch_batches(self.epoch)[self.rank :: self.world_size]
        return (self._batch(rows, self.epoch) for rows in mine[self.start :])

    def epoch_batches(self, epoch: int) -> list[Rows]:
        """The batches of an epoch, of all processes."""
        if not self.shuffle:
            return self._for_all(self._cut(self._order(None, 0.0)))
        for noise in NOISE:
            random = np.random.default_rng([self.seed, epoch])
            batches = self._cut(self._order(random, noise))
            if len(batches) <= self.count:
                break
        batches = split_largest(batches, self.count)
        return self._for_all([batches[i] for i in random.permutation(len(batches))])

    def padding(self) -> float:
        """The fraction of padding among all tokens of the epoch, on both sides together."""
        padded = sum(
            len(rows) * int(self.source[rows].max() + self.target[rows].max())
            for rows in self.epoch_batches(self.epoch)
        )
        return 1 - int(self.source.sum() + self.target.sum()) / padded

    def _for_all(self, batches: list[Rows]) -> list[Rows]:
        """The same batches, changed so that there are ``self.batches``. The batches of the last
        round are split, or of more rounds if that one has too few rows. If there are too many,
        because every example fills a batch, the smallest are joined, over ``max_tokens``.
        """
        length = np.maximum(self.source, self.target)
        while len(batches) > self.batches:
            cells = [len(rows) * int(length[rows].max()) for rows in batches]
            first, second = sorted(np.argsort(cells, kind="stable")[:2])
            batches[first] = np.concatenate([batches[first], batches.pop(second)])
        kept = len(batches) // self.world_size * self.world_size
        while sum(map(len, batches[kept:])) < self.batches - kept:
            kept -= self.world_size
        return [*batches[:kept], *split_largest(batches[kept:], self.batches - kept)]

    def _batch(self, rows: Rows, epoch: int) -> Batch:
        batch = Batch(rows.tolist())
        batch.epoch = epoch if self.shuffle else 0
        return batch

    def _order(self, random: np.random.Generator | None, noise: float) -> Rows:
        """All examples, the longest first: sorted by the longer side, then by how much longer the
        source is. The second key alternates between rising and falling, so that neighbours are
        similar also where the first key changes. Without ``sort``: as they are.
        """
        if not self.sort:
            return np.arange(len(self.source))
        sides: list[NDArray[Any]] = [self.source, self.target]
        if random is not None:
            sides = [side + random.uniform(-noise, noise, len(side)) for side in sides]
        source, target = sides
        longer = np.floor(np.maximum(source, target))
        surplus = np.where(longer % 2 == 0, source - target, target - source)
        return np.lexsort((surplus, -longer))

    def _cut(self, order: Rows) -> list[Rows]:
        """Batches of examples in this order, each as large as ``max_tokens`` allows."""
        length = np.maximum(self.source, self.target)[order]
        batches, first = [], 0
        while first < len(order):
            reach = max(1, self.max_tokens // int(length[first]))
            longest = np.maximum.accumulate(length[first : first + reach])
            tokens = longest * np.arange(1, len(longest) + 1)
            rows = max(1, int(np.searchsorted(tokens, self.max_tokens, side="right")))
            batches.append(order[first : first + rows])
            first += rows
        return batches


def split_largest(batches: list[Rows], count: int) -> list[Rows]:
    """``count`` batches from fewer: the one with the most rows is halved until there are enough."""
    heap = [(-len(rows), i, rows) for i, rows in enumerate(batches)]
    heapq.heapify(heap)
    while len(heap) < count:
        size, i, rows = heapq.heappop(heap)
        half = (-size + 1) // 2
        heapq.heappush(heap, (-half, i, rows[:half]))
        heapq.heappush(heap, (size + half, len(heap) + count, rows[half:]))
    return [rows for _, _, rows in sorted(heap, key=lambda item: item[1])]


class TrainingLoader(DataLoader[Any]):
    """The training batches of one process. Each iteration is an epoch, by default the one that a
    Trainer sets.

    Lightning keeps :meth:`state_dict` in its checkpoints. After :meth:`load_state_dict` the next
    batch is the one after those that were taken before, and the loader counts epochs itself, since
    Lightning takes the end of a training for the end of an epoch.

    Args:
        limit: batches that a Trainer takes of each epoch.

    Raises:
        BadRun: in ``load_state_dict``, if the order is that of another seed.
    """

    def __init__(
        self,
        dataset: Any,
        order: LengthBucketedSampler,
        workers: int,
        limit: int | float | None = None,
    ) -> None:
        super().__init__(
            dataset,
            batch_size=None,
            sampler=order,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=torch.cuda.is_available(),
        )
        self.order = order
        self.per_epoch = batches_per_epoch(len(order), limit)
        self.done = 0
        """Batches of this process that were taken, of all epochs."""
        self.resumed = False

    def state_dict(self) -> dict[str, Any]:
        return {
            "batches": self.done,
            "processes": self.order.world_size,
            "seed": self.order.seed,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["seed"] != self.order.seed:
            raise BadRun(
                f"the checkpoint's batches are in the order of data.seed {state['seed']}, not "
                f"{self.order.seed}"
            )
        self.done = state["batches"] * state["processes"] // self.order.world_size
        self.resumed = True

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # an iterator, if not torch's
        # A generator begins with the first batch: a Trainer sets the epoch after it calls iter().
        if not self.resumed:
            self.done = self.order.epoch * self.per_epoch
        epoch, begun = divmod(self.done, self.per_epoch)
        self.order.set_epoch(epoch, begun)
        for batch in islice(super().__iter__(), self.per_epoch - begun):
            self.done += 1
            yield batch


def batches_per_epoch(batches: int, limit: int | float | None) -> int:
    """The batches of an epoch that a Trainer takes. ``limit`` is its ``limit_train_batches``: an
    int is a number of batches, a float a fraction of them.
    """
    if limit is None:
        return batches
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)
