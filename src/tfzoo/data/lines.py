"""Reading the lines of text files, and finding the files.

Only a line feed ends a line. A lone carriage return, U+0085 or U+2028 stays inside its line, since
otherwise the lines of two parallel files would no longer correspond. A carriage return right before
the line feed belongs to the line end. Files are UTF-8, or what a byte order mark before the first
line says, plain or ``.gz``.
"""

from __future__ import annotations

import codecs
import gzip
import time
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

from tfzoo.base.registry import registry
from tfzoo.base.values import check_range
from tfzoo.errors import BadData, did_you_mean, listing

BLOCK = 1 << 20
"""Bytes that are read at a time."""

SMALL = 1 << 24
"""Bytes that any compressed file may unpack to."""

SETTLED = 3.0
"""Seconds after a change for which the times of a file are not trusted."""


@dataclass(frozen=True)
class Limits:
    """What a file may ask of the memory: ``line`` characters in a line or a cell, and ``ratio``
    times its size when it is unpacked, or :data:`SMALL` bytes.

    Raises:
        BadOption: a number out of its range.
    """

    line: int = 10_000_000
    ratio: int = 200

    def __post_init__(self) -> None:
        check_range("data.max_line", self.line, ge=1, lt=2**31, whole=True)
        check_range("data.max_ratio", self.ratio, ge=1, le=10**9, whole=True)

    def check_unpacked(self, path: Path, size: int) -> None:
        """Check the bytes that a compressed file has unpacked to so far.

        Raises:
            BadData: they are too many.
        """
        if size > SMALL and size > self.ratio * path.stat().st_size:
            raise BadData(
                f"{path} unpacks to over {self.ratio:,} times its size; unpack it yourself if you "
                "trust it, or raise data.max_ratio"
            )

    def check_lengths(self, texts: Sequence[str], name: str, before: int, unit: str) -> None:
        """Check the lengths of some lines or cells, of which the first is number ``before`` + 1.

        Raises:
            BadData: one is too long.
        """
        if max(map(len, texts), default=0) > self.line:
            place = next(i for i, text in enumerate(texts, before + 1) if len(text) > self.line)
            raise BadData(
                f"{name}, {unit} {place:,}: over {self.line:,} characters; split it, or raise "
                "data.max_line"
            )


LIMITS = Limits()


def read_lines(path: Path, limits: Limits = LIMITS) -> Generator[str, None, None]:
    """The lines of a file, plain or ``.gz``, without their ends.

    Raises:
        BadData: the file cannot be read, unpacks to too much, has a line that is too long, or is
            not in the encoding that it has to have; the message names the line.
    """
    packed = path if path.suffix == ".gz" else None
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            yield from decoded(stream, str(path), limits, packed)
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from None


def decoded(
    stream: Any, name: str, limits: Limits = LIMITS, packed: Path | None = None
) -> Generator[str, None, None]:
    """The lines of an open file with a method ``read1``; errors call it ``name``. ``packed`` is the
    compressed file behind it, if there is one.

    Raises:
        BadData: as :func:`read_lines`.
    """
    number = size = 0
    parts: list[str] = []  # of a line whose end was not read yet
    try:
        head = beginning(stream)
        encoding, mark = mark_of(head)
        if encoding == "utf-8" and is_wide(head):
            raise BadData(f"{name}: not UTF-8; {advice(head, 0, first=True)}")
        decoder = codecs.getincrementaldecoder(encoding)()
        for block in chain([head[mark:]], iter(partial(stream.read1, BLOCK), b""), [b""]):
            size += len(block)
            if packed is not None:
                limits.check_unpacked(packed, size)
            parts.append(decoder.decode(block, final=not block))
            if "\n" in parts[-1]:
                lines = split("".join(parts))
                parts = [lines.pop()]
                limits.check_lengths(lines, name, number, "line")
                number += len(lines)
                yield from lines
            if sum(map(len, parts)) > limits.line:
                limits.check_lengths(["".join(parts)], name, number, "line")
        yield from filter(None, ["".join(parts)])  # a last line without an end
    except UnicodeDecodeError as error:
        raise not_text(
            error, name, number, "".join(parts), first=size == len(error.object)
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadData(
            f"{name}: damaged after line {number:,} ({error}); download or compress it again"
        ) from None
    except OSError as error:
        raise BadData(f"{name}: {error.strerror or error}") from None


def beginning(stream: Any) -> bytes:
    """The first bytes of a file, with all of its byte order mark."""
    head: bytes = stream.read1(BLOCK)
    while head and any(mark != head and mark.startswith(head) for mark, _ in MARKS):
        more = stream.read1(BLOCK)
        if not more:
            break
        head += more
    return head


def split(text: str) -> list[str]:
    """The lines of a text, and what follows the last line feed."""
    lines = text.split("\n")
    if "\r" in text:
        return [line.removesuffix("\r") for line in lines[:-1]] + lines[-1:]
    return lines


def not_text(
    error: UnicodeDecodeError, name: str, lines: int, rest: str, *, first: bool
) -> BadData:
    """The error for bytes that are not in a file's encoding, after a number of whole ``lines`` and
    the ``rest`` of one. ``first`` says whether the file begins with the bytes of ``error``.
    """
    before = error.object[: error.start].decode(error.encoding)
    line = (rest + before).rpartition("\n")[2].encode(error.encoding)
    byte = f"byte 0x{error.object[error.start]:02x} at position {len(line) + 1}"
    where = f"{name}, line {lines + 1 + before.count(chr(10)):,}"
    if error.encoding != "utf-8":
        mark = error.encoding.upper()
        return BadData(f"{where}: not {mark} ({byte}), which its byte order mark says; damaged")
    return BadData(f"{where}: not UTF-8 ({byte}); {advice(error.object, error.start, first=first)}")


def check_several(texts: object) -> None:
    """Check that a list of texts is not one text, whose characters would be taken for lines.

    Raises:
        BadData: it is a string, or bytes.
    """
    if isinstance(texts, str | bytes):
        raise BadData(f"pass a list of texts, not one: [{texts[:40]!r}]")


def check_unicode(text: str, where: str) -> str:
    """The text itself, if it can be encoded.

    Raises:
        BadData: it holds a lone surrogate, which JSON and Python strings can hold and UTF-8 cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadData(
            f"{where}: {text[error.start]!r} is a lone surrogate (half of a character), "
            "which UTF-8 cannot encode"
        ) from None
    return text


def stat_fingerprint(*paths: Path) -> str | None:
    """Names, sizes and times of files: if these are the same later, so is the content.

    None if a file has changed within the last seconds: a second change within the same tick of the
    clock would leave the same times.
    """
    parts = []
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            return None
        if time.time() - max(stat.st_mtime, stat.st_ctime) < SETTLED:
            return None
        state = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        parts += [str(path.absolute()), *map(str, state)]
    return "\n".join(parts)


def is_folder(dataset: object) -> bool:
    """Whether the value of ``data.dataset`` is a path and not the name of a built-in data set."""
    if not isinstance(dataset, str):
        return isinstance(dataset, PathLike)
    is_name = dataset in registry("dataset").names()
    return "/" in dataset or "\\" in dataset or (not is_name and Path(dataset).is_dir())


def find_file(*paths: Path) -> Path | None:
    """The first of these paths that is a file; each is tried as it is and with ``.gz``."""
    for path in paths:
        for name in (path, path.with_name(path.name + ".gz")):
            if name.is_file():
                return name
    return None


def missing(folder: Path, names: list[str], instead: str = "") -> BadData:
    """The error for files that are not in a folder. ``instead`` names files that would do too."""
    wanted = " and ".join(names) + (f" (or {instead})" if instead else "")
    if not folder.is_dir():
        return BadData(f"no folder {folder}, where {wanted} should be")
    beside = [path.name for path in folder.iterdir() if path.is_file()]
    close = did_you_mean(names[0], beside)
    split = names[0].partition(".")[0]
    other = f". data.{split} takes other names, and patterns" if split in ("train", "val") else ""
    return BadData(f"no {wanted} in {folder}, plain or .gz.{close} There: {listing(beside)}{other}")


MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and their encodings."""

WIDE = {"utf_16_le": "UTF-16LE", "utf_16_be": "UTF-16BE"}
NARROW = {
    "gb18030": "GB18030",
    "big5": "BIG5",
    "cp932": "SHIFT_JIS",
    "euc_jp": "EUC-JP",
    "cp949": "EUC-KR",
    "cp1252": "LATIN1",
    "cp1251": "WINDOWS-1251",
    "koi8_r": "KOI8-R",
}
"""Encodings that are looked for: Python's names, and those of iconv."""

SAMPLE = 2048
"""Bytes that are looked at."""

SANE = 4
"""How many times as many characters as errors a text has that is UTF-8 and damaged."""


def mark_of(head: bytes) -> tuple[str, int]:
    """The encoding that a file's first bytes name, and the length of the byte order mark; UTF-8
    if there is none.
    """
    return next(((name, len(mark)) for mark, name in MARKS if head.startswith(mark)), ("utf-8", 0))


def is_wide(head: bytes) -> bool:
    """Whether a file that begins with these bytes looks like UTF-16 without a byte order mark:
    a fifth of the bytes is 0.
    """
    return head[:SAMPLE].count(0) > len(head[:SAMPLE]) / 5


def advice(content: bytes, place: int, *, first: bool) -> str:
    """What to do about bytes that are not UTF-8 from ``place`` on. ``first`` says whether the file
    begins with ``content``.
    """
    begin = content.rfind(b"\n", 0, place) + 1
    lines = content[begin : begin + SAMPLE]
    if len(content) > begin + SAMPLE:  # whole lines, so that no character is cut
        lines = lines[: lines.rfind(b"\n") + 1] or lines
    text = content[max(0, place - SAMPLE) : place + SAMPLE].decode("utf-8", "replace")
    errors = text.count("\ufffd")
    if sum(sign > "\x7f" for sign in text) - errors > SANE * errors:
        return "the text around it is UTF-8, so these bytes are damaged; replace them"
    if first and b"\0" in content[:SAMPLE]:
        found = likeliest(
            content[: SAMPLE & -2 if len(content) > SAMPLE else len(content) & -2], WIDE
        )
    else:
        found = likeliest(lines, NARROW)
    if found is None:
        return "what encoding it has cannot be told; ask where it comes from, and convert a copy"
    return (
        f"the bytes look like {found}. Convert a copy, iconv -f {found} -t UTF-8 FILE > COPY, "
        "and see whether it reads well"
    )


def likeliest(content: bytes, names: dict[str, str]) -> str | None:
    """iconv's name of the encoding that these bytes most likely have; None if none fits."""
    from charset_normalizer import from_bytes

    found = from_bytes(content, steps=1, chunk_size=max(len(content), 1), cp_isolation=[*names])
    best = found.best()
    return None if best is None else names.get(best.encoding)
