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
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tfzoo.base import cache
from tfzoo.data.hosts import Refused, refusal_of_recipe
from tfzoo.errors import BadData, BadOption, listing

PROTOCOLS = ("gs", "hf", "http", "https", "memory", "s3")
"""What an address may begin with."""

UNPROTECTED = "http"
"""The protocol that a recipe may use only with ``--trust``: others on the network can change the
text, and the metadata servers of clouds give out a machine's credentials over it.
"""

LIMIT = 20 * 10**9
"""Bytes of all copies together. Those that were not used for the longest time are removed first."""

RECENT = 3600.0
"""Seconds after its last use for which a copy is not removed: a training may be reading it."""

VERSION = (
    *("ETag", "etag", "Content-MD5", "Digest", "Last-Modified", "LastModified", "md5Hash"),
    *("updated", "blob_id", "CRC", "created", "size"),
)
"""Entries of fsspec's ``info`` that change when a file changes."""

CHUNK = 1 << 20
"""Bytes that are read at a time."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds to wait before a file is read on, after each failure in a row."""

FINAL = (Refused, FileNotFoundError, PermissionError)
"""Errors that another try does not mend."""

WITHOUT_LISTS = ("http", "https")
"""Protocols that cannot say which files there are."""

NUMBERS = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
"""A range of numbers in an address, such as ``{000..127}``."""

MOST_FILES = 1_000_000
"""The most addresses that ranges stand for."""


class Unreachable(BadData):
    """An address that could not be read now, and may be later."""


def is_address(path: str) -> bool:
    """Whether this is an address or a chain of addresses (``zip://FILE::ADDRESS``), not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None or "::" in path


def refusal(address: str, trusted: bool = True) -> str:
    """The reason why an address is refused; ``""`` if it is not. :data:`UNPROTECTED` addresses and
    hosts that are not public are refused in a recipe that is not ``trusted``.
    """
    *outer, inner = address.split("::")
    protocol = inner.partition("://")[0]
    archive = len(outer) == 1 and outer[0].startswith("zip://")
    if protocol not in PROTOCOLS or "://" not in inner or (outer and not archive):
        return (
            f"{address!r} is no address that tfzoo reads: it begins with one of "
            f"{listing(PROTOCOLS)} and ://, or with zip://FILE:: and such an address. Give files "
            "of this machine by their path; read others in Python and pass their rows"
        )
    if "*" in address and (archive or protocol in WITHOUT_LISTS):
        return (
            f"{address!r}: here is no list of files for a pattern; write a range of numbers, "
            "part-{000..127}.tsv, or a list of addresses"
        )
    if protocol == UNPROTECTED and not trusted:
        return f"{address!r}: a recipe does not read {UNPROTECTED}://, only https://"
    if protocol == "https" and not trusted:
        why = refusal_of_recipe(re.split(r"[/?#]", inner.partition("://")[2])[0])
        return why and f"{address!r}: {why}"
    return ""


def check_address(address: str) -> None:
    """Raise BadOption for an address that is not read."""
    if reason := refusal(address):
        raise BadOption(reason)


def file_name(address: str) -> str:
    """The name of the file at an address."""
    first = address.partition("::")[0]
    protocol, _, path = first.partition("://")
    if protocol in ("http", "https"):
        path = re.split(r"[?#]", path)[0]
    return re.sub(r"[^\w.-]", "_", path.rstrip("/").rpartition("/")[2])[-100:].lstrip(".") or "text"


def addresses(pattern: str, ending: str = "") -> list[str]:
    """The addresses that one stands for: ranges of numbers, ``part-{000..127}.tsv``, are counted
    with as many digits as their first number has, and files of a ``*`` are listed, in the order of
    their names. Of two files that belong together, ``ending`` is that of the first; the addresses
    are without it.

    Raises:
        BadOption, BadData: not an address, too many, or no file.
    """
    check_address(pattern)
    found = [pattern]
    while ranges := NUMBERS.search(found[0]):
        first, last = map(int, ranges.groups())
        count = max(0, last - first + 1)
        if not 0 < count * len(found) <= MOST_FILES:
            raise BadOption(f"{pattern!r} is a range of {count * len(found):,} files")
        texts = [str(number).zfill(len(ranges[1])) for number in range(first, last + 1)]
        found = [NUMBERS.sub(text, one, count=1) for one in found for text in texts]
    return [name for one in found for name in (listed(one, ending) if "*" in one else [one])]


def listed(pattern: str, ending: str) -> list[str]:
    """The addresses of a pattern with ``*``, see :func:`addresses`."""
    protocol = pattern.partition("://")[0]
    try:
        system, path = opened(pattern)
        files = sorted(system.glob(path))
    except Exception as error:  # of many classes, from several libraries
        raise error if isinstance(error, BadOption) else unreadable(pattern, error) from None
    if ending:
        files = [one.removesuffix(f".{ending}") for one in files if one.endswith(f".{ending}")]
    if not files:
        raise BadData(f"no file matches {pattern}{ending and f'.{ending}'}")
    return [f"{protocol}://{one.lstrip('/')}" for one in files]


def local_copy(address: str, quiet: bool = False) -> Path:
    """The copy of a file in the cache: the current one, or the last one if the address cannot be
    reached.

    Raises:
        BadOption: not an address, or its protocol needs a package that is not installed.
        BadData: it cannot be read, or is too large for the cache.
    """
    check_address(address)
    key = cache.key(address)
    try:
        system, path = opened(address)
        info = system.info(path)
    except Exception as error:  # of many classes, from several libraries
        if isinstance(error, BadOption):
            raise
        if isinstance(cause(error), Refused):
            raise unreadable(address, error) from None
        entries = sorted(shelf().glob(f"download-{key}-*"), key=last_use)
        known = [entry for entry in entries if cache.damage(entry) == ""]
        if not known:
            raise unreadable(address, error) from None
        print(f"data: {address} cannot be reached; the copy in the cache is used", file=sys.stderr)
        return used(known[-1], address)
    entry = cache.entry("download", f"{key}-{version_of(info)}")
    with suppress(OSError):  # there is none yet
        os.utime(entry)  # so that no other process removes it now
    if not cache.is_whole(entry):
        if not quiet:
            print(f"data: copying {address} into the cache", file=sys.stderr)
        download(system, path, address, entry, info)
    return used(entry, address)


def version_of(info: Mapping[str, Any]) -> str:
    """What changes when a file changes, by its ``info``."""
    return cache.key(*(f"{name} {info[name]}" for name in VERSION if name in info))


def opened(address: str) -> tuple[Any, str]:
    """The file system of an address and the path there.

    Raises:
        BadOption: a package is missing.
    """
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations

    inner = address.split("::")[-1]
    protocol = inner.partition("://")[0]
    options: dict[str, Any] = {}
    if protocol in ("http", "https"):
        from tfzoo.data.http_client import client

        # A client belongs to one address: that of another must not be used again.
        options = {protocol: {"get_client": client(inner), "skip_instance_cache": True}}
    try:
        system, path = url_to_fs(address, **options)
    except ImportError:
        package = known_implementations[protocol]["class"].partition(".")[0]
        raise BadOption(
            f"{protocol}:// needs a package that is not installed: pip install {package}"
        ) from None
    return system, path


def download(system: Any, path: str, address: str, entry: Path, info: Mapping[str, Any]) -> None:
    """Copy a file into the cache."""
    size = info.get("size")
    allowed = make_room(LIMIT if size is None else size)
    with cache.filling(entry) as folder, (folder / file_name(address)).open("wb") as copy:
        (folder / "address").write_text(address, "utf-8")
        for chunk in chunks(system, path, address, version_of(info)):
            if copy.tell() + len(chunk) > allowed:
                raise BadData(
                    f"{address} is too large: the cache keeps {LIMIT / 1e9:g} GB of such copies, "
                    f"of which {allowed / 1e9:.3g} GB are free; download it and give its path"
                )
            copy.write(chunk)


def chunks(system: Any, path: str, address: str, version: str) -> Iterator[bytes]:
    """The content of a file at an address. Where reading fails on its way, it goes on after the
    bytes that were read, with :data:`PAUSES` between tries, if the file is still of this version.
    """
    size = failed = 0
    while True:
        try:
            if size and version_of(system.info(path)) != version:
                raise BadData(f"{address} has changed while it was copied; start again")
            for chunk in read_from(system, path, size):
                size, failed = size + len(chunk), 0
                yield chunk
        except BadData:
            raise
        except Exception as error:  # of many classes, from several libraries
            if not size or failed == len(PAUSES) or isinstance(cause(error), FINAL):
                raise unreadable(address, error) from None
            time.sleep(PAUSES[failed])
            failed += 1
        else:
            return


def read_from(system: Any, path: str, start: int) -> Iterator[bytes]:
    """The content of a file, without its first bytes."""
    stream: IO[bytes]
    with system.open(path, "rb") as stream:
        try:
            stream.seek(start)
        except (ValueError, OSError):  # a server that sends whole files alone
            left = start
            while left and (skipped := len(stream.read(min(CHUNK, left)))):
                left -= skipped
        while chunk := stream.read(CHUNK):
            yield chunk


def make_room(wanted: int) -> int:
    """Remove old copies until there is room for ``wanted`` bytes; return the bytes there is room
    for, which may be fewer.
    """
    sizes = {entry: size_of(entry) for entry in sorted(shelf().glob("download-*"), key=last_use)}
    free = LIMIT - sum(sizes.values())
    for entry, size in sizes.items():
        if free < wanted and time.time() - last_use(entry) > RECENT:
            free += size  # also where another reader removes it at this moment
            shutil.rmtree(entry, ignore_errors=True)
    return max(free, 0)


def copies() -> list[tuple[str, int]]:
    """The address of each copy in the cache, and its bytes."""
    found = []
    for entry in shelf().glob("download-*"):
        with suppress(OSError):  # removed by another process
            found.append(((entry / "address").read_text("utf-8"), size_of(entry)))
    return sorted(found)


def used(entry: Path, address: str) -> Path:
    """Return the file of an entry of the cache, and mark the entry as used now."""
    os.utime(entry)
    return entry / file_name(address)


def release(file: Path) -> None:
    """Let the copy of a file be the first that is removed: it has been read to its end."""
    if file.parent.parent == shelf():
        with suppress(OSError):  # removed by another process
            os.utime(file.parent, (0, 0))


def shelf() -> Path:
    """The folder of the cache that holds the copies."""
    return cache.folder() / cache.SHELF


def last_use(entry: Path) -> float:
    """When a copy was last used; 0 if another process has removed it."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def size_of(entry: Path) -> int:
    """Bytes of a copy; 0 if another process has removed it."""
    try:
        return sum(map(cache.file_size, entry.glob("*")))
    except OSError:
        return 0


def cause(error: BaseException) -> BaseException:
    """The error that led to an error, if one did."""
    return cause(error.__cause__) if error.__cause__ else error


def unreadable(address: str, error: BaseException) -> BadData:
    """The error for an address that cannot be read."""
    error = cause(error)
    kind = BadData if isinstance(error, FINAL) else Unreachable
    why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
    return kind(
        f"cannot read {address} ({why}). Check the address and the network; or download the file "
        "and give its path"
    )
