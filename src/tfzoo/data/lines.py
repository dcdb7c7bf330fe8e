"""Reading the lines of text files, and finding the files.

Only a line feed ends a line. A lone carriage return, U+0085 or U+2028 stays inside its line, since
otherwise the lines of two parallel files would no longer correspond. A carriage return right before
the line feed belongs to the line end. Files are UTF-8, plain or ``.gz``.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from tfzoo.errors import BadData, did_you_mean, listing


def read_lines(path: Path) -> Generator[str, None, None]:
    """The lines of a file, plain or ``.gz``, without their ends.

    Raises:
        BadData: the file cannot be read, or is not UTF-8; the message names the line.
    """
    try:
        with path.open("rb") as file:
            packed = path.suffix == ".gz"
            stream: Any = io.BufferedReader(gzip.GzipFile(fileobj=file)) if packed else file
            yield from decoded(stream, str(path))
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from None


def decoded(stream: Iterable[bytes], name: str) -> Generator[str, None, None]:
    """The lines of an open file; errors call it ``name``.

    Raises:
        BadData: as :func:`read_lines`.
    """
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise not_utf8(line, error.start, name, number) from None
            if number == 1:
                text = text.removeprefix("\ufeff")
                if "\0" in text:  # UTF-16 without a byte order mark
                    raise not_utf8(line, line.index(0), name, number)
            yield text.removesuffix("\r\n").removesuffix("\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadData(
            f"{name}: damaged after line {number:,} ({error}); download or compress it again"
        ) from None
    except OSError as error:
        raise BadData(f"{name}: {error.strerror or error}") from None


def not_utf8(line: bytes, place: int, name: str, number: int) -> BadData:
    """The error for a byte of a line."""
    return BadData(
        f"{name}, line {number:,}: not UTF-8 (byte 0x{line[place]:02x} at position {place + 1}). "
        "Convert a copy, iconv -f ENCODING -t UTF-8 FILE > COPY, where ENCODING is the name of the "
        "encoding in which the file was written, one of iconv -l"
    )


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
