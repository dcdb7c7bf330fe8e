"""Files at an address, such as ``https://host/train.tsv`` or ``s3://bucket/train.tsv``, read with
the library fsspec. A file is copied into the cache, and copied again when it changes there.

A recipe may come from a stranger, so only a fixed list of protocols is allowed. None of them reads
files of this machine, runs a program, or writes outside the cache.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfzoo.base import cache
from tfzoo.data.hosts import Refused, refusal_of_recipe
from tfzoo.errors import BadData, BadOption, listing

PROTOCOLS = ("gs", "hf", "http", "https", "memory", "s3")
"""What an address may begin with."""

WEB = ("http", "https")
"""Protocols that cannot say which files there are, and whose hosts are checked."""

VERSION = (
    *("ETag", "etag", "Content-MD5", "Digest", "Last-Modified", "LastModified", "md5Hash"),
    *("updated", "blob_id", "created", "size"),
)
"""Entries of fsspec's ``info`` that change when a file changes."""

NUMBERS = re.compile(r"\{(\d{1,6})\.\.(\d{1,6})\}")
"""A range of numbers in an address, such as ``{000..127}``."""

REMEDY = "Check the address and the network; or download the file and give its path"


def is_address(path: str) -> bool:
    """Whether this is an address, or a chain of them as fsspec has, not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None or "::" in path


def refusal(address: str, trusted: bool = True) -> str:
    """The reason why an address is refused; ``""`` if it is not. ``http://`` and hosts that are not
    public are refused in a recipe that is not ``trusted``.
    """
    protocol, separator, rest = address.partition("://")
    if protocol not in PROTOCOLS or not separator or "::" in address:
        return (
            f"{address!r} is no address that tfzoo reads: it begins with one of "
            f"{listing(PROTOCOLS)} and ://. Give files of this machine by their path; read others "
            "in Python and pass their rows"
        )
    if "*" in address and protocol in WEB:
        return (
            f"{address!r}: here is no list of files for a pattern; write a range of numbers, "
            "part-{000..127}.tsv, or a list of addresses"
        )
    if protocol in WEB and not trusted:
        why = refusal_of_recipe(protocol, re.split(r"[/?#]", rest)[0])
        return why and f"{address!r}: {why}"
    return ""


def check_address(address: str) -> None:
    """Raise BadOption for an address that is not read."""
    if reason := refusal(address):
        raise BadOption(reason)


def file_name(address: str) -> str:
    """The name of the file at an address, without what could lead elsewhere as a path."""
    path = re.split(r"[?#]", address)[0] if address.partition("://")[0] in WEB else address
    return re.sub(r"[^\w.-]", "_", path.rstrip("/").rpartition("/")[2])[-100:].lstrip(".") or "text"


def addresses(pattern: str) -> list[str]:
    """The addresses that one stands for: a range of numbers, ``part-{000..127}.tsv``, is counted
    with as many digits as its first number has, and the files of a ``*`` are listed, in the order
    of their names.

    Raises:
        BadOption, BadData: not an address, several ranges or an empty one, or no list of files.
    """
    check_address(pattern)
    if numbers := NUMBERS.search(pattern):
        first, last = numbers.groups()
        if int(first) > int(last) or len(NUMBERS.findall(pattern)) > 1:
            raise BadOption(f"{pattern!r} must have one range of numbers, the smaller one first")
        counted = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        return [pattern.replace(numbers[0], number) for number in counted]
    if "*" not in pattern:
        return [pattern]
    with explained(pattern, REMEDY):
        system, path = opened(pattern)
        protocol = pattern.partition("://")[0]
        return [f"{protocol}://{one.lstrip('/')}" for one in sorted(system.glob(path))]


NOT_THERE = FileNotFoundError, PermissionError, Refused
"""What is not asked for again, as the answer would be the same."""


def local_copy(address: str, quiet: bool = False) -> Path:
    """The copy of a file in the cache, made without a word if ``quiet``; the last one where the
    address cannot be reached.

    Raises:
        BadOption, BadData: not an address, or it cannot be read.
    """
    check_address(address)
    with explained(address, REMEDY):
        system, path = opened(address)
        try:
            info = system.info(path)
        except OSError as error:
            copies = (cache.folder() / cache.SHELF).glob(f"download-{cache.key(address)}-*")
            whole = sorted(filter(cache.is_whole, copies), key=lambda copy: copy.stat().st_mtime)
            if not whole or isinstance(cause(error), NOT_THERE):
                raise
            print(f"data: {address} is not there; the copy in the cache is used", file=sys.stderr)
            return whole[-1] / file_name(address)
    version = cache.key(*(f"{name} {info[name]}" for name in VERSION if name in info))
    name = file_name(address)
    entry = cache.entry("download", f"{cache.key(address)}-{version}")
    if not cache.is_whole(entry):
        if not quiet:
            print(f"data: copying {address} into the cache", file=sys.stderr)
        with cache.filling(entry) as folder, explained(address, REMEDY):
            system.get_file(path, str(folder / name))
    return entry / name


def opened(address: str) -> tuple[Any, str]:
    """The file system of an address and the path there."""
    from fsspec.core import url_to_fs

    options: dict[str, Any] = {}
    if address.partition("://")[0] in WEB:
        from tfzoo.data.http_client import client

        # A client belongs to one address: that of another must not be used again.
        options = {"get_client": client(address), "skip_instance_cache": True}
    system, path = url_to_fs(address, **options)
    return system, path


def release(file: Path) -> None:
    """Remove the copy of a file of a stream, which has been read to its end."""
    if file.parent.parent == shelf():
        shutil.rmtree(file.parent, ignore_errors=True)


def shelf() -> Path:
    """The folder of the cache that holds the copies."""
    return cache.folder() / cache.SHELF


def cause(error: BaseException) -> BaseException:
    """The error that led to an error, if one did."""
    return cause(error.__cause__) if error.__cause__ else error


@contextmanager
def explained(what: str, remedy: str) -> Iterator[None]:
    """Say in one line why a library cannot read something, and what to do.

    Raises:
        BadData: the library fails.
    """
    try:
        yield
    except Exception as error:  # of many classes, from several libraries
        first = cause(error)
        why = f"{type(first).__name__}: {(str(first).splitlines() or [''])[0][:160]}"
        raise BadData(f"cannot read {what} ({why}). {remedy}") from first
