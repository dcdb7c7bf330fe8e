"""From text to token ids on the disk, and a part of the training text that is held out. Each step
is looked up in the cache first. Its key holds all that the result depends on: the text, the
options, and the code itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import chain, compress, islice
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tfzoo.base import cache
from tfzoo.base.registry import Spec, create, registry
from tfzoo.data.table import Row, Text
from tfzoo.data.tokenizer import Encoder, Tokenizer, restored
from tfzoo.errors import BadData

T = TypeVar("T")

Flags = NDArray[np.bool_]

Examples = Iterable[tuple[str, str]]
"""The rows of a split, source and target or text and label, which can be iterated several times."""

CHUNK = 4096
"""Lines that are hashed or tokenized at once."""


@dataclass
class SplitRead:
    """A split, and what one pass over its rows finds out: their number, hashes of both columns,
    which of the wanted sources it has (``known``), and its targets (``cells``) if they are kept.
    """

    rows: Examples
    examples: int = 0
    source: str = ""
    target: str = ""
    known: set[str] = field(default_factory=set)
    cells: list[str] = field(default_factory=list)


def read_split(
    rows: Examples, name: str, wanted: frozenset[str] = frozenset(), *, cells: bool = False
) -> SplitRead:
    """Read a split once to its end, so that every error in it is found now. ``cells``: keep the
    targets.
    """
    result = SplitRead(rows)
    digests = blake2b(digest_size=16), blake2b(digest_size=16)
    for chunk in chunks(watched(rows, f"reading {name}")):
        for side, digest in enumerate(digests):
            digest.update(json.dumps([row[side] for row in chunk]).encode())
        result.examples += len(chunk)
        if wanted:
            result.known.update(wanted.intersection(source for source, _ in chunk))
        if cells:
            result.cells += [sys.intern(target) for _, target in chunk]
    if result.examples == 0:
        raise BadData(f"{getattr(rows, 'path', name)}: no text")
    result.source, result.target = (digest.hexdigest() for digest in digests)
    return result


def location(rows: Examples, row: int, name: str) -> str:
    """Where a row of a split stands, for an error message: file and line if there are any."""
    return rows.location(row) if isinstance(rows, Text) else f"{name}, row {row + 1:,}"


def train_tokenizer(
    lines: Iterable[str], content: str, spec: Spec, count: int, states: Sequence[str] = ()
) -> Tokenizer:
    """A tokenizer trained on ``count`` lines, whose hash is ``content``, or that of ``states``."""
    if states:
        return restored(spec, states[0])
    path = cache.entry("tokenizer", cache.key(content, identity("tokenizer", spec)))
    tokenizer: Tokenizer = create("tokenizer", spec)
    if not cache.is_whole(path):
        tokenizer.train(watched(lines, "training the tokenizer", count))
        with cache.filling(path) as folder:
            (folder / "state").write_text(tokenizer.state(), "utf-8")
    # of two processes that trained at once, both continue with the state that was kept
    tokenizer.restore((path / "state").read_text("utf-8"))
    return tokenizer


def identity(kind: str, spec: Spec) -> str:
    """All that the results of a component depend on: its class, every option, and the source files
    of tfzoo and of the packages that the class and what it inherits from are defined in.
    """
    entry, given = registry(kind).options(spec)
    options = {name: given.get(name, option.default) for name, option in entry.options.items()}
    names = [entry.cls.__module__, entry.cls.__qualname__, entry.name]
    packages = {one.__module__.partition(".")[0] for one in entry.cls.__mro__} | {"tfzoo"}
    code = [source_hash(one) for one in sorted(packages - {"builtins", "typing"})]
    return json.dumps([*names, options, code], sort_keys=True)


@lru_cache
def source_hash(package: str) -> str:
    """A hash of the source files of a package, which an edit changes; in a notebook, which has
    none, another one in every process.
    """
    file = getattr(sys.modules[package], "__file__", None)
    if file is None:
        return uuid4().hex
    whole = (
        sorted(Path(file).parent.rglob("*.py")) if Path(file).stem == "__init__" else [Path(file)]
    )
    return cache.key(*(one.read_text("utf-8") for one in whole))


def encode_columns(
    read: SplitRead, encoders: Sequence[tuple[int, Encoder]], spec: Spec, name: str
) -> list[Encoded]:
    """The ids that each encoder makes of a column of a split: 0, the sources, or 1, the targets.
    What is not in the cache is made in a pass over the rows. ``spec`` is that of the tokenizer of
    the encoders.
    """
    found, made_by = [], identity("tokenizer", spec)
    for side, encoder in encoders:
        content = (read.source, read.target)[side]
        path = cache.entry("ids", cache.key(content, made_by, encoder.state()))
        if not cache.is_whole(path):
            with cache.filling(path) as folder:
                whole = chunks(watched(read.rows, f"tokenizing {name}", read.examples))
                cells = ([row[side] for row in chunk] for chunk in whole)
                write(folder, (encode_cells(encoder, chunk) for chunk in cells))
        found.append(Encoded(path))
    return found


def encode_cells(encoder: Encoder, cells: Sequence[str]) -> list[list[int]]:
    """The ids of some cells; those of spaces alone are encoded as empty ones."""
    return encoder.encode([cell if cell.strip() else "" for cell in cells])


def generated(spec: Spec, seed: int) -> dict[str, list[tuple[str, str]]]:
    """The splits of a built-in data set."""
    path = cache.entry("generated", cache.key(identity("dataset", spec), str(seed)))
    if not cache.is_whole(path):
        with cache.filling(path) as folder:
            splits = create("dataset", spec).splits(seed)
            (folder / "splits").write_text(json.dumps(splits), "utf-8")
    found = json.loads((path / "splits").read_text("utf-8"))
    return {name: [(first, second) for first, second in rows] for name, rows in found.items()}


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The same items in lists of at most CHUNK."""
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


def watched(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """The same items, with a progress bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, total, console=Console(stderr=True), transient=True)


def hold_out(splits: Mapping[str, Text], fraction: float, seed: int) -> dict[str, Text]:
    """The splits, with a part of the training text as ``val``: ``fraction`` of its rows, rounded,
    and at least one. Reads the text to its end.

    Rows are held out in the order of a hash of the seed and of their first column, so the choice
    depends on the seed and on the texts and not on their order, and equal texts are on one side.
    Texts that occur more often than rows are still wanted are passed over, so the number is exact
    unless too few texts occur only once (:func:`chosen`).
    """
    whole, salt = splits["train"], seed.to_bytes(8, "big", signed=True)
    texts = (first.encode("utf-8", "surrogatepass") for first, _ in whole)
    digests = b"".join(blake2b(text, digest_size=8, salt=salt).digest() for text in texts)
    _, group, counts = np.unique(
        np.frombuffer(digests, ">u8"), return_inverse=True, return_counts=True
    )
    if len(counts) < 2:
        raise BadData(
            f"{whole.path}: {len(group):,} rows, {len(counts)} different texts; to hold some out "
            "for validation (data.val_fraction) takes two different texts, as equal ones stay "
            "together; or give data.val"
        )
    flags = chosen(counts.tolist(), max(1, int(fraction * len(group) + 0.5)))[group]
    parts = {"train": ~flags, "val": flags}
    return {**splits} | {
        name: Text(whole.path, partial(part_of, whole, part)) for name, part in parts.items()
    }


def part_of(whole: Text, part: Flags) -> Iterator[Row]:
    """The rows of a text that are flagged."""
    return compress(whole.rows(), part)


def chosen(counts: list[int], wanted: int) -> Flags:
    """Which of some groups are taken so that they have ``wanted`` rows: in their order, each that
    is not too large for what is left. Some group is taken, and not all.
    """
    flags, left = np.zeros(len(counts), bool), wanted
    for group, rows in enumerate(counts):
        if rows <= left:
            flags[group], left = True, left - rows
    if flags.all() or not flags.any():
        flags[np.argmin(counts)] ^= True
    return flags


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
    """Sentences in two files of a folder: ``ids``, 32-bit integers, and ``offsets``, n + 1 64-bit
    integers. The folder is an entry of the cache that is whole.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(mapped(folder / "ids", "<i4"), mapped(folder / "offsets", "<i8"))

    def __reduce__(self) -> tuple[type[Encoded], tuple[Path]]:
        # a worker process gets the folder and opens the files, instead of a copy of the ids
        return Encoded, (self.folder,)


def write(folder: Path, chunks: Iterable[list[list[int]]]) -> None:
    """Write the files of an :class:`Encoded`, some sentences at a time."""
    counts = [np.zeros(1, "<i8")]
    with (folder / "ids").open("wb") as file:
        for sentences in chunks:
            ids, lengths = flat(sentences)
            ids.tofile(file)
            counts.append(lengths)
    np.cumsum(np.concatenate(counts)).tofile(folder / "offsets")


def flat(sentences: list[list[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All ids in one array, and the length of each sentence."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    total = int(lengths.sum())
    return np.fromiter(chain.from_iterable(sentences), dtype=np.int32, count=total), lengths


def mapped(path: Path, dtype: str) -> Integers:
    """The integers in a file, memory-mapped; an empty file cannot be."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)
