"""Files at an address, such as ``https://host/train.tsv`` or ``s3://bucket/train.tsv``, read with
the library fsspec. A file is copied into the cache, and copied again when it changes there.

A recipe may come from a stranger, so only a fixed list of protocols is allowed. None of them reads
files of this machine, runs a program, or writes outside the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfzoo.base import cache
from tfzoo.data.hosts import Refused, refusal_of_recipe
from tfzoo.errors import BadData, BadOption, listing

PROTOCOLS = ("gs", "hf", "http", "https", "memory", "s3")
"""What an address may begin with."""

UNPROTECTED = "http"
"""The protocol that a recipe may use only with ``--trust``: others on the network can change the
text, and the metadata servers of clouds give out a machine's credentials over it.
"""

VERSION = (
    *("ETag", "etag", "Content-MD5", "Digest", "Last-Modified", "LastModified", "md5Hash"),
    *("updated", "blob_id", "created", "size"),
)
"""Entries of fsspec's ``info`` that change when a file changes."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds before a file of a stream is asked for again, after each failure."""

WITHOUT_LISTS = ("http", "https")
"""Protocols that cannot say which files there are."""

NUMBERS = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
"""A range of numbers in an address, such as ``{000..127}``."""

MOST_FILES = 1_000_000
"""The most addresses that ranges stand for."""


class Unreachable(BadData):
    """An address that could not be read now, and may be later."""


def is_address(path: str) -> bool:
    """Whether this is an address, or a chain of them as fsspec has, not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None or "::" in path


def refusal(address: str, trusted: bool = True) -> str:
    """The reason why an address is refused; ``""`` if it is not. :data:`UNPROTECTED` addresses and
    hosts that are not public are refused in a recipe that is not ``trusted``.
    """
    protocol, separator, rest = address.partition("://")
    if protocol not in PROTOCOLS or not separator or "::" in address:
        return (
            f"{address!r} is no address that tfzoo reads: it begins with one of "
            f"{listing(PROTOCOLS)} and ://. Give files of this machine by their path; read others "
            "in Python and pass their rows"
        )
    if "*" in address and protocol in WITHOUT_LISTS:
        return (
            f"{address!r}: here is no list of files for a pattern; write a range of numbers, "
            "part-{000..127}.tsv, or a list of addresses"
        )
    if protocol == UNPROTECTED and not trusted:
        return f"{address!r}: a recipe does not read {UNPROTECTED}://, only https://"
    if protocol == "https" and not trusted:
        why = refusal_of_recipe(re.split(r"[/?#]", rest)[0])
        return why and f"{address!r}: {why}"
    return ""


def check_address(address: str) -> None:
    """Raise BadOption for an address that is not read."""
    if reason := refusal(address):
        raise BadOption(reason)


def file_name(address: str) -> str:
    """The name of the file at an address."""
    protocol, _, path = address.partition("://")
    if protocol in WITHOUT_LISTS:
        path = re.split(r"[?#]", path)[0]
    return re.sub(r"[^\w.-]", "_", path.rstrip("/").rpartition("/")[2])[-100:].lstrip(".") or "text"


def addresses(pattern: str) -> list[str]:
    """The addresses that one stands for: ranges of numbers, ``part-{000..127}.tsv``, are counted
    with as many digits as their first number has, and files of a ``*`` are listed, in the order of
    their names.

    Raises:
        BadOption, BadData: not an address, an empty range, or no list of files.
    """
    check_address(pattern)
    found = [pattern]
    while ranges := NUMBERS.search(found[0]):
        first, last = map(int, ranges.groups())
        if not first <= last < first + MOST_FILES:
            raise BadOption(f"{pattern!r} is a range of {last - first + 1:,} files")
        texts = [str(number).zfill(len(ranges[1])) for number in range(first, last + 1)]
        found = [NUMBERS.sub(text, one, count=1) for one in found for text in texts]
    return [name for one in found for name in (listed(one) if "*" in one else [one])]


def listed(pattern: str) -> list[str]:
    """The addresses of a pattern with ``*``, see :func:`addresses`."""
    system, path = opened(pattern)
    protocol = pattern.partition("://")[0]
    try:
        return [f"{protocol}://{one.lstrip('/')}" for one in sorted(system.glob(path))]
    except Exception as error:  # of many classes, from several libraries
        raise unreadable(pattern, error) from None


def local_copy(address: str, quiet: bool = False) -> Path:
    """The copy of a file in the cache: the current one, or the last one if the address cannot be
    reached.

    Raises:
        BadOption: not an address, or its protocol needs a package that is not installed.
        BadData: it cannot be read.
    """
    check_address(address)
    key, name = cache.key(address), file_name(address)
    system, path = opened(address)
    try:
        info = system.info(path)
    except Exception as error:  # of many classes, from several libraries
        copies = sorted(shelf().glob(f"download-{key}-*"), key=os.path.getmtime)
        whole = [copy for copy in copies if not cache.damage(copy)]
        if not whole or isinstance(cause(error), Refused):
            raise unreadable(address, error) from None
        print(f"data: {address} cannot be reached; the copy in the cache is used", file=sys.stderr)
        return whole[-1] / name
    entry = cache.entry("download", f"{key}-{version_of(info)}")
    if not cache.is_whole(entry):
        if not quiet:
            print(f"data: copying {address} into the cache", file=sys.stderr)
        with cache.filling(entry) as folder:
            try:
                system.get_file(path, str(folder / name))
            except Exception as error:  # of many classes, from several libraries
                raise unreadable(address, error) from None
    return entry / name


def version_of(info: Mapping[str, Any]) -> str:
    """What changes when a file changes, by its ``info``."""
    return cache.key(*(f"{name} {info[name]}" for name in VERSION if name in info))


def opened(address: str) -> tuple[Any, str]:
    """The file system of an address and the path there.

    Raises:
        BadOption: a package is missing.
        BadData: there is no access.
    """
    from fsspec.core import url_to_fs

    protocol = address.partition("://")[0]
    options: dict[str, Any] = {}
    if protocol in WITHOUT_LISTS:
        from tfzoo.data.http_client import client

        # A client belongs to one address: that of another must not be used again.
        options = {"get_client": client(address), "skip_instance_cache": True}
    try:
        system, path = url_to_fs(address, **options)
    except ImportError as error:
        raise BadOption(f"{protocol}:// needs a package that is not installed: {error}") from None
    except Exception as error:  # of many classes, from several libraries
        raise unreadable(address, error) from None
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


def unreadable(address: str, error: BaseException) -> BadData:
    """The error for an address that cannot be read."""
    error = cause(error)
    final = isinstance(error, Refused | FileNotFoundError | PermissionError)
    why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
    return (BadData if final else Unreachable)(
        f"cannot read {address} ({why}). Check the address and the network; or download the file "
        "and give its path"
    )
