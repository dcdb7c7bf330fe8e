"""The order of batches, of examples of similar length, and the loaders that go on in it where a
checkpoint was written: of text that is prepared as a whole, where the order depends on seed and
epoch alone, and of text that is read as a stream, file after file, while training goes on, as it
does not fit on a disk or is not worth preparing.

Some readers each take a part of the files of a stream. A reader goes through its files in an order
that the seed and the number of its pass decide, a block of rows at a time: the rows of a block are
encoded, put into batches of similar length, and the batches shuffled. Batches come from the readers
in turns. So their order is a function of the seed and the files alone, whatever processes and
workers there are, and a place in it is a few numbers for each reader.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.utils.data import DataLoader, IterableDataset, Sampler, get_worker_info

from tfzoo.base import cache
from tfzoo.base.values import check_range
from tfzoo.data.remote import is_address
from tfzoo.data.source import text_of
from tfzoo.data.table import Text, TextFormat
from tfzoo.errors import BadData, BadRun, TfzooError

Rows = NDArray[np.int64]

NOISE = (1.0, 0.5, 0.0)
"""Added to lengths before sorting, in tokens: the first that gives few enough batches."""

SPARE = 1.05
"""The batches of an epoch, as a multiple of what sorting without noise gives: noise needs more."""


class Batch(list[int]):
    """The indices of one batch and the epoch they belong to; a worker process receives both."""

    epoch = 0


def check_count(found: str, count: int, processes: int) -> None:
    """Raise BadData, which says what was ``found``, where not every process gets an example."""
    if count < processes:
        raise BadData(f"{found} are too few for {processes} processes; use fewer devices")


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
        check_count(f"{len(source)} examples", len(source), world_size)
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
        """The next ``iter`` yields this epoch without the process's first ``start`` batches."""
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
    split, sizes = [*batches], np.zeros(max(count, len(batches)), np.int64)
    sizes[: len(split)] = [*map(len, split)]
    while len(split) < count:
        largest, new = int(sizes.argmax()), len(split)
        split[largest], rest = np.array_split(split[largest], 2)
        split.append(rest)
        sizes[largest], sizes[new] = len(split[largest]), len(rest)
    return split


def loader_options(order: LengthBucketedSampler, workers: int) -> dict[str, Any]:
    """The arguments of a ``DataLoader`` whose data set is indexed by whole batches, in an order."""
    return {
        "batch_size": None,
        "sampler": order,
        "num_workers": workers,
        "persistent_workers": workers > 0,
        "pin_memory": torch.cuda.is_available(),
    }


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
        super().__init__(dataset, **loader_options(order, workers))
        self.order = order
        self.per_epoch = batches_per_epoch(len(order), limit)
        self.done = 0
        """Batches of this process that were taken, of all epochs."""
        self.resumed = False

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self.done, "processes": self.order.world_size, "seed": self.order.seed}

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
    """The batches of an epoch that a Trainer takes; ``limit`` is its ``limit_train_batches``."""
    if limit is None:
        return batches
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)


T = TypeVar("T")

READERS = 8
"""The most readers; where there are more processes, as many as processes."""

ROWS, CHARACTERS = 65_536, 16_000_000
"""How much text the blocks of all readers hold at a time, whichever is reached first."""

SAMPLE = 200_000, 50_000_000
"""How much text the tokenizer is trained on, as :data:`ROWS` and :data:`CHARACTERS`."""

Encode = Callable[[Sequence[tuple[str, str]]], Any]
"""The data set of some rows, without those that training leaves out."""


@dataclass(frozen=True)
class Files:
    """The files of a training text."""

    root: Path
    names: Sequence[str]
    form: TextFormat

    @property
    def content(self) -> str:
        """A hash of the names."""
        return cache.key(str(len(self.names)), *self.names, *self.form.columns, *self.form.endings)

    def open(self, name: str) -> Text:
        """One of them."""
        return text_of(self.root, name, self.form, quiet=True)

    def sample(self) -> list[tuple[str, str]]:
        """The first rows of the first files, for a tokenizer."""
        names = self.names[:READERS]
        rows, characters = (most // len(names) for most in SAMPLE)
        texts = (limited(enumerate(self.open(name)), rows, characters) for name in names)
        return [row for text in texts for _, row in text if row]


@dataclass(frozen=True)
class Place:
    """Where a reader stands: the ``passes`` over its files that are over, its ``file`` in this one,
    the ``row`` in it at which the block begins, the number of the ``block``, and the batches of it
    that were ``taken``.
    """

    passes: int = 0
    file: int = 0
    row: int = 0
    block: int = 0
    taken: int = 0


class TextStream(IterableDataset[Any]):
    """The batches of one process, without end: ``(reader, place after it, batch)``; instead of
    those that cannot be made, the error. Process ``rank`` of ``world_size`` gets every
    ``world_size``-th batch of the order that one process would have.

    ``done`` is the number of batches of this process that were taken before, ``places`` where the
    readers stand that do not stand at the beginning.
    """

    def __init__(
        self,
        files: Files,
        encode: Encode,
        max_tokens: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if len(files.names) < world_size:
            raise BadData(
                f"data.stream: {len(files.names)} files are too few for {world_size} processes, "
                "each of which reads its own; split them, or use fewer devices"
            )
        self.files, self.encode, self.max_tokens, self.seed = files, encode, max_tokens, seed
        self.rank, self.world_size = rank, world_size
        most = min(len(files.names), READERS)
        self.readers = max(most - most % world_size, world_size)
        self.done = 0
        self.places: dict[int, Place] = {}

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        begin, step = (worker.id, worker.num_workers) if worker else (0, 1)
        turns = (
            (local * self.world_size + self.rank) % self.readers
            for local in count(self.done + begin, step)
        )
        own = {number: self._read(number) for number in dict.fromkeys(islice(turns, self.readers))}
        try:
            while True:
                for number, batches in own.items():
                    yield number, *next(batches)
        except TfzooError as error:
            yield error

    def workers(self, wanted: int) -> int:
        """As many workers as are wanted, or fewer, so that each reader belongs to one."""
        each = self.readers // self.world_size
        return max((n for n in range(1, wanted + 1) if each % n == 0), default=0)

    def _read(self, number: int) -> Iterator[tuple[Place, Any]]:
        """The batches of a reader, each with the place after it."""
        place = self.places.get(number, Place())
        rows, used = self._rows(number, place), place.passes
        while True:
            block = [*limited(rows, ROWS // self.readers, CHARACTERS // self.readers)]
            pairs = [row for _, row in block if row]
            after = replace(block[-1][0], block=place.block + bool(pairs))
            dataset = self.encode(pairs) if pairs else ()
            batches = self._order(dataset, place.block * self.readers + number)
            for taken, batch in enumerate(batches[place.taken :], place.taken + 1):
                last, used = taken == len(batches), place.passes
                yield after if last else replace(place, taken=taken), dataset[batch]
            if after.passes > used + 1:
                raise BadData(f"{self.files.names[0]} and the files with it: no row can be used")
            place = after

    def _order(self, dataset: Any, epoch: int) -> list[Any]:
        """The batches of a block: those of an epoch that no other block has."""
        if not dataset:
            return []
        source, target = dataset.lengths()
        sampler = LengthBucketedSampler(source, target, self.max_tokens, seed=self.seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    def _rows(self, number: int, start: Place) -> Iterator[tuple[Place, tuple[str, str] | None]]:
        """Each row of a reader with the place after it, from a place on; None where a pass ends."""
        place = start
        while True:
            order = np.random.default_rng([self.seed, place.passes])
            shuffled = order.permutation(len(self.files.names))[number :: self.readers]
            for file, name in enumerate(shuffled[place.file :], place.file):
                row = place.row if file == place.file else 0
                text = self.files.open(self.files.names[name])
                for at, pair in enumerate(islice(iter(text), row, None), row + 1):
                    yield Place(place.passes, file, at), pair
                for path in text.files if is_address(self.files.names[name]) else ():
                    shutil.rmtree(path.parent, ignore_errors=True)  # the copy in the cache
            place = Place(place.passes + 1)
            yield place, None


class StreamLoader:
    """The batches of a stream, in epochs of so many ``batches``, of which a Trainer takes
    ``limit``. Each iteration goes on after the last batch that was taken, up to the end of its
    epoch. Lightning keeps :meth:`state_dict` in its checkpoints.
    """

    def __init__(
        self, stream: TextStream, batches: int, workers: int, limit: int | float | None = None
    ) -> None:
        self.stream, self.batches = stream, batches
        self.per_epoch = batches_per_epoch(batches, limit)
        self.num_workers = stream.workers(workers)
        self._items: Iterator[Any] | None = None

    def __len__(self) -> int:
        """Batches of one process in a whole epoch."""
        return self.batches

    def state_dict(self) -> dict[str, Any]:
        """All processes must call it: each knows where its own readers stand."""
        stream, begin = self.stream, Place()
        own = range(stream.rank, stream.readers, stream.world_size)
        places = [{number: asdict(stream.places.get(number, begin)) for number in own}]
        if dist.is_initialized() and stream.world_size > 1:
            places *= stream.world_size
            dist.all_gather_object(places, places[stream.rank])
        return {
            "batches": stream.done,
            "processes": stream.world_size,
            "places": {number: place for one in places for number, place in one.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        stream, places = self.stream, state["places"]
        if len(places) != stream.readers:
            raise BadRun(
                f"the checkpoint has {len(places)} readers of data.train, and {stream.world_size} "
                f"processes have {stream.readers}; resume with as many processes as before"
            )
        stream.done = state["batches"] * state["processes"] // stream.world_size
        stream.places = {number: Place(**place) for number, place in places.items()}
        self._items = None

    def __iter__(self) -> Iterator[Any]:
        if self._items is None:
            workers, pinned = self.num_workers, torch.cuda.is_available()
            self._items = iter(
                DataLoader(self.stream, batch_size=None, num_workers=workers, pin_memory=pinned)
            )
        for item in islice(self._items, self.per_epoch - self.stream.done % self.per_epoch):
            if isinstance(item, TfzooError):
                self._items = None  # ends its workers
                raise item
            number, self.stream.places[number], batch = item
            self.stream.done += 1
            yield batch


def limited(
    rows: Iterator[tuple[T, tuple[str, str] | None]], most: int, characters: int
) -> Iterator[tuple[T, tuple[str, str] | None]]:
    """The first rows, up to a number of them or of their characters, or the end of a pass."""
    for place, row in islice(rows, most):
        yield place, row
        characters -= sum(map(len, row or ()))
        if row is None or characters < 0:
            return
