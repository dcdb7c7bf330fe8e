"""The lines of a text file, and where the file is.

A line ends at a line feed and nowhere else: a lone carriage return, U+0085 or U+2028 stays inside
its line, or two files would fall out of step. One carriage return right before the line feed
belongs to the line end, and a byte order mark before the first line is dropped. Files are UTF-8,
plain or ``.gz``.
"""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path

from tfzoo.errors import BadData, did_you_mean, listing

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

SETTLED = 3.0
"""Seconds after a change for which a file's times are not trusted."""


def read_lines(path: Path) -> Generator[str, None, None]:
    """The lines of a UTF-8 file, plain or ``.gz``, without their ends.

    Raises:
        BadData: it cannot be read, or a line is not UTF-8; the message names the line.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield from decoded(stream, str(path))
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from None


def decoded(stream: Iterable[bytes], name: str) -> Generator[str, None, None]:
    """The lines of an open file; ``name`` is what an error calls it.

    Raises:
        BadData: as :func:`read_lines`.
    """
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            yield (
                line.removesuffix(b"\n").removesuffix(b"\r").decode()
                if line.endswith(b"\n")
                else line.decode()
            )
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at place {error.start + 1}"
        raise BadData(
            f"{name}, line {number:,}: not UTF-8 ({byte}); convert the file: iconv -f LATIN1 -t UTF-8"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadData(
            f"{name}: damaged after line {number:,} ({error}); fetch or compress it again"
        ) from None
    except OSError as error:
        raise BadData(f"{name}: {error.strerror or error}") from None


def written(text: str, place: str) -> str:
    """The text itself.

    Raises:
        BadData: it cannot be written as UTF-8: JSON and Python can hold one half of a character
            that UTF-16 writes as two.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadData(
            f"{place}: {text[error.start]!r} is half of a character (a surrogate), which no text file can hold"
        ) from None
    return text


def stamp(*paths: Path) -> str | None:
    """What tells that files have not changed since, without reading them: names, sizes, times. None
    where that is not sure yet.

    Two changes within the same tick of the clock leave the same times, so files that have only just
    changed have no stamp.
    """
    parts = []
    for path in paths:
        try:
            known = path.stat()
        except OSError:
            return None
        if time.time() - max(known.st_mtime, known.st_ctime) < SETTLED:
            return None
        parts += [
            str(path.absolute()),
            *map(str, (known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino)),
        ]
    return "\n".join(parts)


def find_file(*paths: Path) -> Path | None:
    """The first of these that is a file, each plain or as ``.gz``."""
    for path in paths:
        for name in (path, path.with_name(path.name + ".gz")):
            if name.is_file():
                return name
    return None


def missing(folder: Path, names: list[str], instead: str = "") -> BadData:
    """The error for files that are not in a folder; ``instead`` would have done as well."""
    wanted = " and ".join(names) + (f" (or {instead})" if instead else "")
    if not folder.is_dir():
        return BadData(f"no folder {folder}, where {wanted} should be")
    beside = [path.name for path in folder.iterdir() if path.is_file()]
    return BadData(
        f"no {wanted} in {folder}, plain or .gz.{did_you_mean(names[0], beside)} There: {listing(beside)}"
    )
