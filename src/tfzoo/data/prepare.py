"""From text to ids on the disk: each step is done once for the same content and found in the cache
afterwards.
"""

from __future__ import annotations

import inspect
import json
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from itertools import islice
from typing import Protocol, TypeVar

from tfzoo.data import cache
from tfzoo.data.encoded import Encoded, Writer
from tfzoo.data.progress import watched
from tfzoo.data.table import Table
from tfzoo.data.tokenizer import Tokenizer, TokenizerPair
from tfzoo.errors import BadData
from tfzoo.registry import Spec, create, registry

T = TypeVar("T")

Text = Iterable[tuple[str, str]]
"""Pairs of sentences, source and target, that can be iterated again and again."""

FORMAT = "2"
"""Changes when the files in the cache do; older ones are then made anew."""

CHUNK = 4096
"""Lines that are hashed or tokenized at once."""


class Encoder(Protocol):
    """What turns lines into ids, and tells by its state how: a tokenizer, for one."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each."""

    def state(self) -> str:
        """All that the ids depend on."""


@dataclass
class Scan:
    """What one reading of a split tells: how many pairs, names for the content of each side, texts
    with a carriage return inside.
    """

    pairs: int = 0
    returns: int = 0
    source: str = ""
    target: str = ""
    known: set[str] = field(default_factory=set)


def scan(text: Text, name: str, wanted: frozenset[str] = frozenset()) -> Scan:
    """What reading a split tells, from the cache where the same unchanged files were read to their
    end before; see :func:`read_through`.
    """
    stamp = text.stamp() if hasattr(text, "stamp") else None
    path = cache.entry("scan", cache.key(FORMAT, stamp or "", *sorted(wanted)))
    try:
        found = json.loads((path / "scan").read_text("utf-8")) if stamp else {}
        return Scan(**{**found, "known": set(found["known"])})
    except (OSError, ValueError, KeyError, TypeError):
        result = read_through(text, name, wanted)
    if stamp:
        with cache.filling(path) as folder:
            (folder / "scan").write_text(
                json.dumps({**vars(result), "known": sorted(result.known)}), "utf-8"
            )
    return result


def read_through(text: Text, name: str, wanted: frozenset[str] = frozenset()) -> Scan:
    """Read a split once, to its end, so that every error in it is met now. ``known``: which wanted
    sources it has.

    Raises:
        BadData: as the text's own reader; also for a split without a row.
    """
    result = Scan()
    digests = blake2b(digest_size=16), blake2b(digest_size=16)
    for chunk in chunks(watched(text, f"reading {name}")):
        for side, digest in enumerate(digests):
            lines = [pair[side] for pair in chunk]
            digest.update(
                array("q", map(len, lines)).tobytes()
            )  # where each ends: a text may hold line feeds
            joined = "".join(lines)
            if "\r" in joined:
                result.returns += sum("\r" in line for line in lines)
            digest.update(joined.encode())
        result.pairs += len(chunk)
        if wanted:
            result.known.update(wanted.intersection(source for source, _ in chunk))
    if result.pairs == 0:
        raise BadData(f"{name}: no text")
    result.source, result.target = (digest.hexdigest() for digest in digests)
    return result


def place(text: Text, row: int, name: str) -> str:
    """Where a row of a split stands, for a message."""
    return text.place(row) if hasattr(text, "place") else f"{name}, text {row + 1:,}"


def train_languages(
    text: Text, read: Scan, names: tuple[str, str], spec: Spec, joint: bool
) -> TokenizerPair:
    """The tokenizers for a training split, trained now or found in the cache."""
    if joint:
        one = train_tokenizer(
            (line for pair in text for line in pair),
            f"{read.source} {read.target}",
            spec,
            read.pairs * 2,
        )
        return TokenizerPair(one, one, *names, spec)
    source = train_tokenizer((line for line, _ in text), read.source, spec, read.pairs)
    target = train_tokenizer((line for _, line in text), read.target, spec, read.pairs)
    return TokenizerPair(source, target, *names, spec)


def train_tokenizer(lines: Iterable[str], content: str, spec: Spec, count: int) -> Tokenizer:
    """One tokenizer, from the cache where the same lines, options and version of the library have
    made it before.
    """
    path = cache.entry("tokenizer", cache.key(FORMAT, content, full(spec), version("tokenizers")))
    tokenizer: Tokenizer = create("tokenizer", spec)
    try:
        tokenizer.restore((path / "state").read_text("utf-8"))
    except Exception:  # whatever is wrong with the file, or no file: a new one is as good
        tokenizer.train(watched(lines, "training the tokenizer", count))
        with cache.filling(path) as folder:
            (folder / "state").write_text(tokenizer.state(), "utf-8")
        tokenizer.restore(
            (path / "state").read_text("utf-8")
        )  # of two processes that trained at once, both take the same
    return tokenizer


def full(spec: Spec, kind: str = "tokenizer") -> str:
    """A spec with all its options, those by default too."""
    entry, given = registry(kind).options(spec)
    options = {name: given.get(name, option.default) for name, option in entry.options.items()}
    return json.dumps([entry.cls.__module__, entry.name, options], sort_keys=True)


def encode_split(
    text: Text, read: Scan, languages: TokenizerPair, name: str
) -> tuple[Encoded, Encoded]:
    """The ids of both sides of a split, from the cache where the same lines and tokenizers have
    made them before.
    """
    made_by = full(languages.spec)
    source = encode_lines(
        (s for s, _ in text), read.source, languages.source, made_by, name, read.pairs
    )
    target = encode_lines(
        (t for _, t in text), read.target, languages.target, made_by, name, read.pairs
    )
    return source, target


def encode_lines(
    lines: Iterable[str], content: str, tokenizer: Encoder, made_by: str, name: str, count: int
) -> Encoded:
    """The ids of some lines, from the cache where the same was done before. A line of spaces alone
    has none.
    """
    path = cache.entry("ids", cache.key(FORMAT, content, made_by, tokenizer.state()))
    try:
        return Encoded(path / "sentences")
    except (OSError, ValueError):
        pass
    with cache.filling(path) as folder:
        writer = Writer(folder / "sentences")
        for chunk in chunks(watched(lines, f"tokenizing {name}", count)):
            writer.add(tokenizer.encode([line if line.strip() else "" for line in chunk]))
        writer.close()
        if writer.sentences != count:
            raise BadData(
                f"{name}: {writer.sentences:,} lines, but {count:,} a moment ago; let the files rest while they are read"
            )
    return Encoded(path / "sentences")


def drawn(spec: Spec, seed: int, columns: tuple[str, str]) -> dict[str, Table]:
    """The splits of a built-in data set, from the cache where the same code, options and seed have
    made them before.
    """
    made = create("dataset", spec)
    code = inspect.getsource(sys.modules[type(made).__module__])
    path = cache.entry("drawn", cache.key(FORMAT, full(spec, "dataset"), str(seed), code))
    try:
        sizes: dict[str, int] = json.loads((path / "sizes").read_text("utf-8"))
        if any((path / f"{name}.tsv").stat().st_size != size for name, size in sizes.items()):
            raise ValueError
    except (OSError, ValueError):
        with cache.filling(path) as folder:
            sizes = {}
            for name, rows in made.splits(seed).items():
                text = "".join(f"{first}\t{second}\n" for first, second in ([columns, *rows]))
                sizes[name] = (folder / f"{name}.tsv").write_bytes(text.encode())
            (folder / "sizes").write_text(json.dumps(sizes), "utf-8")
    return {name: Table(path / f"{name}.tsv", columns) for name in sizes}


def distinct(lines: Iterable[str], content: str) -> list[str]:
    """The different lines among these, sorted; from the cache where the same lines were asked for
    before.
    """
    path = cache.entry("distinct", cache.key(FORMAT, content))
    try:
        found: list[str] = json.loads((path / "lines").read_text("utf-8"))
    except (OSError, ValueError):
        found = sorted(set(lines))
        with cache.filling(path) as folder:
            (folder / "lines").write_text(json.dumps(found, ensure_ascii=False), "utf-8")
    return found


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The same items in lists of CHUNK."""
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
