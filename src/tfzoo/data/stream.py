"""Training text that is read as a stream: file after file, while training goes on, for text that
does not fit on a disk or is not worth preparing as a whole.

Some readers each take a part of the files. A reader goes through its files in an order that the
seed and the number of its pass decide, a block of rows at a time: the rows of a block are encoded,
put into batches of similar length, and the batches shuffled. Batches come from the readers in
turns. So their order is a function of the seed and the files alone, whatever processes and workers
there are, and a place in it is a few numbers for each reader.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from tfzoo.base import cache
from tfzoo.data.length_bucketed_sampler import LengthBucketedSampler
from tfzoo.data.parallel_batch import as_is
from tfzoo.data.remote import PAUSES, Unreachable, release
from tfzoo.data.source import text_of
from tfzoo.data.table import Text, TextFormat
from tfzoo.errors import BadData, BadRun, TfzooError

READERS = 8
"""The most readers; where there are more processes, as many as processes."""

ROWS, CHARACTERS = 65_536, 16_000_000
"""How much text the blocks of all readers hold at a time, whichever is reached first."""

SAMPLE = 200_000, 50_000_000
"""How much text the tokenizer is trained on, as :data:`ROWS` and :data:`CHARACTERS`."""

Pair = tuple[str, str]
Encode = Callable[[Sequence[Pair]], tuple[Any, Mapping[str, int]]]
"""The data set of some rows, and the number of rows that are left out by reason."""


@dataclass(frozen=True)
class Files:
    """The files of a training text."""

    root: Path
    names: Sequence[str]
    form: TextFormat

    @property
    def content(self) -> str:
        """A hash of the names."""
        form = self.form
        return cache.key(str(len(self.names)), *self.names, *form.columns, *form.endings)

    def open(self, name: str) -> Text:
        """One of them. An address that does not answer is asked again, after :data:`PAUSES`."""
        found = partial(text_of, self.root, name, self.form, quiet=True)
        for pause in PAUSES:
            with suppress(Unreachable):
                return found()
            sleep(pause)
        return found()

    def sample(self) -> list[Pair]:
        """The first rows of the first files, for a tokenizer."""
        names = self.names[:READERS]
        rows, characters = (most // len(names) for most in SAMPLE)
        return [row for name in names for row in limited(iter(self.open(name)), rows, characters)]


@dataclass(frozen=True)
class Place:
    """Where a reader stands.

    ``passes`` are those over its files that are over, ``file`` the number of its file in this one,
    and ``row`` the row in it at which the block begins. ``block`` counts blocks, ``taken`` the
    batches of this one that were taken, ``rows`` the rows of those before and ``skipped`` those
    that were left out.
    """

    passes: int = 0
    file: int = 0
    row: int = 0
    block: int = 0
    taken: int = 0
    rows: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """The batches of some rows, where they begin, and where the next ones do."""

    dataset: Any
    batches: Sequence[Any]
    begin: Place
    end: Place


class Reader:
    """Reader ``number`` of a stream, from a place on. The next block is made in a thread while the
    batches of one are taken.
    """

    def __init__(self, stream: TextStream, number: int, place: Place) -> None:
        self.stream, self.number, self.place = stream, number, place
        self.rows = self._rows(place)

    def __iter__(self) -> Iterator[tuple[Place, Any]]:
        skip = self.place.taken
        with ThreadPoolExecutor(1) as thread:
            following = thread.submit(self._block, replace(self.place, taken=0))
            while True:
                block = following.result()
                following = thread.submit(self._block, block.end)
                for taken, rows in enumerate(block.batches[skip:], skip + 1):
                    last = taken == len(block.batches)
                    place = block.end if last else replace(block.begin, taken=taken)
                    yield place, block.dataset[rows]
                skip = 0

    def _block(self, begin: Place) -> Block:
        """The block at a place. One of which no row is left is passed over.

        Raises:
            BadData: from the reader of the files; or no row of a whole pass can be used.
        """
        stream, passes = self.stream, begin.passes
        while True:
            rows, end = self._take(begin)
            if rows:
                dataset, left_out = stream.encode(rows)
                skipped = dict(Counter(begin.skipped) + Counter(left_out))
                total = begin.rows + len(rows)
                end = replace(end, block=begin.block + 1, rows=total, skipped=skipped)
                if len(dataset):
                    return Block(dataset, self._batches(dataset, begin.block), begin, end)
            if end.passes > passes + 1:
                raise BadData(f"{stream.files.names[0]} and the files with it: no row can be used")
            begin = end

    def _batches(self, dataset: Any, block: int) -> list[Any]:
        """The batches of a block: those of an epoch that no other block has."""
        stream = self.stream
        source, target = dataset.lengths()
        sampler = LengthBucketedSampler(source, target, stream.max_tokens, seed=stream.seed)
        sampler.set_epoch(block * stream.readers + self.number)
        return list(sampler)

    def _take(self, begin: Place) -> tuple[list[Pair], Place]:
        """The rows of a block, and the place after them; a pass ends with a block."""
        most, characters = ROWS // self.stream.readers, CHARACTERS // self.stream.readers
        rows: list[Pair] = []
        for place, row in self.rows:
            end = replace(begin, passes=place.passes, file=place.file, row=place.row)
            if row is None:
                break
            rows.append(row)
            characters -= len(row[0]) + len(row[1])
            if len(rows) == most or characters < 0:
                break
        return rows, end

    def _rows(self, start: Place) -> Iterator[tuple[Place, Pair | None]]:
        """Each row with the place after it, from a place on; None where a pass ends."""
        place = start
        while True:
            names = self._order(place.passes)
            for file in range(place.file, len(names)):
                row = place.row if file == place.file else 0
                text = self.stream.files.open(names[file])
                for number, pair in enumerate(islice(iter(text), row, None), row + 1):
                    yield Place(place.passes, file, number), pair
                for path in text.files:
                    release(path)
            place = Place(place.passes + 1)
            yield place, None

    def _order(self, passes: int) -> list[str]:
        """This reader's files in a pass."""
        names = self.stream.files.names
        order = np.random.default_rng([self.stream.seed, passes]).permutation(len(names))
        return [names[i] for i in order[self.number :: self.stream.readers]]


class TextStream(IterableDataset[Any]):
    """The batches of one process, without end: ``(reader, place after it, batch)``; instead of
    those that cannot be made, the error. Process ``rank`` of ``world_size`` gets every
    ``world_size``-th batch of the order that one process would have.

    ``done`` is the number of batches of this process that were taken before, ``places`` where the
    readers stand that do not stand at the beginning.

    Raises:
        BadData: fewer files than processes.
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
        try:
            own = dict.fromkeys(islice(turns, self.readers))
            made = {n: iter(Reader(self, n, self.places.get(n, Place()))) for n in own}
            while True:
                for number in own:
                    yield number, *next(made[number])
        except TfzooError as error:
            yield error

    def go_on(self, done: int, places: Mapping[int, Mapping[str, Any]]) -> None:
        """Begin after so many batches, at the places of a checkpoint.

        Raises:
            BadRun: they are of another number of readers.
        """
        if places and len(places) != self.readers:
            raise BadRun(
                f"the checkpoint has {len(places)} readers of data.train, and {self.world_size} "
                f"processes have {self.readers}; resume with as many processes as before"
            )
        self.done = done
        self.places = {number: Place(**place) for number, place in places.items()}

    def workers(self, wanted: int) -> int:
        """As many workers as are wanted, or fewer, so that each reader belongs to one."""
        each = self.readers // self.world_size
        return max((n for n in range(1, wanted + 1) if each % n == 0), default=0)


class StreamLoader:
    """The batches of a stream, in epochs of so many ``batches``; the first one, until the Trainer
    sets an epoch, without those that were ``begun`` before.

    Raises (while iterating):
        BadData: from the reader of the files.
    """

    def __init__(self, stream: TextStream, batches: int, workers: int) -> None:
        self.stream, self.batches, self.begun = stream, batches, 0
        self.num_workers = stream.workers(workers)
        self._batches: Any = None

    @property
    def sampler(self) -> StreamLoader:
        """This object: Lightning calls ``set_epoch`` on the ``sampler`` of a loader."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Begin a whole epoch: of a stream, the next batches."""
        self.begun = 0

    def __len__(self) -> int:
        """Batches of one process in a whole epoch."""
        return self.batches

    def __iter__(self) -> Iterator[Any]:
        return self._epoch(self.begun)  # now: the Trainer sets the epoch after it asked for this

    def _epoch(self, begun: int) -> Iterator[Any]:
        before = self.skipped()
        if self._batches is None:
            self._batches = iter(self._loader())
        for item in islice(self._batches, self.batches - begun):
            if isinstance(item, TfzooError):
                raise item
            number, self.stream.places[number], batch = item
            self.stream.done += 1
            yield batch
        if (skipped := self.skipped()) != before:
            rows = sum(place.rows for place in self.stream.places.values())
            reasons = ", ".join(f"{number:,} {why}" for why, number in skipped.items())
            print(f"data: of {rows:,} rows, training skipped {reasons}", file=sys.stderr)

    def state(self) -> dict[int, dict[str, Any]]:
        """The places of this process's readers after the last batch that was taken."""
        stream, begin = self.stream, Place()
        own = range(stream.rank, stream.readers, stream.world_size)
        return {number: asdict(stream.places.get(number, begin)) for number in own}

    def skipped(self) -> dict[str, int]:
        """The rows that were left out so far, by reason."""
        return dict(sum((Counter(one.skipped) for one in self.stream.places.values()), Counter()))

    def _loader(self) -> DataLoader[Any]:
        return DataLoader(
            self.stream,
            batch_size=None,
            collate_fn=as_is,
            num_workers=self.num_workers,
            pin_memory=torch.cuda.is_available(),
        )


def limited(rows: Iterator[Pair], most: int, characters: int) -> Iterator[Pair]:
    """The first rows, up to a number of them or of their characters."""
    for row in islice(rows, most):
        yield row
        characters -= len(row[0]) + len(row[1])
        if characters < 0:
            return
