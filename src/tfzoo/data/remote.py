"""Files at an address, such as ``https://host/train.tsv`` or ``s3://bucket/train.tsv``, read with
the library fsspec. A file is copied into the cache, and copied again when it changes there.

A recipe may come from a stranger, so only a fixed list of protocols is allowed. None of them reads
files of this machine, runs a program, or writes outside the cache. Over ``https://`` a recipe names
public hosts alone, and no redirect leads to what it could not name: another protocol, this machine,
its network, a cloud's metadata server.
"""

import re
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tfzoo.base import cache
from tfzoo.errors import BadData, BadOption, listing

PROTOCOLS = ("gs", "hf", "http", "https", "memory", "s3")
"""What an address may begin with."""

WEB = ("http", "https")
"""Protocols that cannot say which files there are, and whose hosts are checked."""

SILENCE = 30.0
"""Seconds after which a server that sends nothing is given up."""

REMEDY = "Check the address and the network; or download the file and give its path"


class Refused(Exception):
    """A request that is not sent; the message says why."""


def is_address(path: str) -> bool:
    """Whether this is an address, or a chain of them as fsspec has, not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None or "::" in path


def refusal(address: str, trusted: bool = True) -> str:
    """The reason why an address is refused; ``""`` if it is not. ``http://`` and hosts that are not
    public are refused in a recipe that is not ``trusted``.
    """
    protocol, separator, _ = address.partition("://")
    if protocol not in PROTOCOLS or not separator or "::" in address:
        return (
            f"{address!r} is no address that tfzoo reads: it begins with one of "
            f"{listing(PROTOCOLS)} and ://. Give files of this machine by their path; read others "
            "in Python and pass their rows"
        )
    if "*" in address and protocol in WEB:
        return f"{address!r}: {protocol}:// lists no files for a pattern; give a list of addresses"
    return "" if trusted or protocol not in WEB else refusal_of_stranger(address)


def refusal_of_stranger(address: str) -> str:
    """Why a recipe or a redirect may not name an address of the web; ``""`` if it may. Over
    ``http://`` others on the network can change the text, and the metadata servers of clouds give
    out a machine's credentials.
    """
    from yarl import URL

    try:
        url = URL(address)
    except ValueError as error:
        return f"{address!r} is no address: {error}"
    if url.scheme != "https":
        return f"{address!r}: a recipe does not read {url.scheme}://, only https://"
    public = may_be_public(url.raw_host or "")
    return "" if public else f"{address!r}: no public host, and a recipe reads no other"


def may_be_public(host: str) -> bool:
    """Whether a host, as it is written, may be a public one: a name other than ``localhost``, or
    a public IP address in any form that the system reads, such as ``127.1``.
    """
    try:
        number = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)[0][4][0]
    except (OSError, UnicodeError):
        name = re.fullmatch(r"[\w.-]+", host, re.ASCII) is not None
        return name and host.rstrip(".").lower().rpartition(".")[2] not in ("", "localhost")
    return ip_address(number).is_global


def client(address: str) -> Callable[..., Awaitable[Any]]:
    """What fsspec calls to make the client for an address of the web. Each of its requests is
    checked. One to another protocol, host or port, where a redirect leads, must be one that a
    recipe could name, and its host must have public IP addresses alone.
    """
    import aiohttp
    from aiohttp.resolver import ThreadedResolver
    from yarl import URL

    first = URL(address)

    class Resolver(ThreadedResolver):
        async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> Any:
            found = await super().resolve(host, port, family)
            public = all(ip_address(one["host"]).is_global for one in found)
            if not public and (host, port) != (first.raw_host, first.port):
                raise Refused(f"a redirect is refused: {host}:{port} is on no public host")
            return found

    async def check(request: Any, send: Any) -> Any:
        same = request.url.origin() == first.origin()
        if not same and (why := refusal_of_stranger(str(request.url))):
            raise Refused(f"a redirect is refused: {why}")
        return await send(request)

    async def make(**_: Any) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(resolver=Resolver())
        timeout = aiohttp.ClientTimeout(sock_connect=SILENCE, sock_read=SILENCE)
        return aiohttp.ClientSession(connector=connector, timeout=timeout, middlewares=[check])

    return make


def file_name(address: str) -> str:
    """The name of the file at an address, without what could lead elsewhere as a path."""
    path = re.split(r"[?#]", address)[0] if address.partition("://")[0] in WEB else address
    return re.sub(r"[^\w.-]", "_", path.rstrip("/").rpartition("/")[2])[-100:].lstrip(".") or "text"


def addresses(pattern: str) -> list[str]:
    """The addresses that one stands for: the files of a ``*``, in the order of their names."""
    if reason := refusal(pattern):
        raise BadOption(reason)
    if "*" not in pattern:
        return [pattern]
    with explained(pattern, REMEDY):
        system, path = opened(pattern)
        protocol = pattern.partition("://")[0]
        return [f"{protocol}://{one.lstrip('/')}" for one in sorted(system.glob(path))]


def local_copy(address: str, quiet: bool = False) -> Path:
    """The copy of a file in the cache, made without a word if ``quiet``; the last one where the
    address cannot be reached.
    """
    with explained(address, REMEDY):
        system, path = opened(address)
        try:
            info = system.info(path)
        except OSError as error:
            copies = (cache.folder() / cache.SHELF).glob(f"download-{cache.key(address)}-*")
            whole = sorted(filter(cache.is_whole, copies), key=lambda copy: copy.stat().st_mtime)
            if not whole or isinstance(cause(error), FileNotFoundError | PermissionError | Refused):
                raise
            print(f"data: {address} is not there; the copy in the cache is used", file=sys.stderr)
            return whole[-1] / file_name(address)
    # where a redirect leads may be another address each time
    version = cache.key(*(f"{name} {info[name]}" for name in sorted(info.keys() - {"url"})))
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
        # A client belongs to one address: that of another must not be used again.
        options = {"get_client": client(address), "skip_instance_cache": True}
    system, path = url_to_fs(address, **options)
    return system, path


def cause(error: BaseException) -> BaseException:
    """The error that led to an error, if one did."""
    return cause(error.__cause__) if error.__cause__ else error


@contextmanager
def explained(what: str, remedy: str) -> Iterator[None]:
    """Raise BadData, which says in one line why a library cannot read something, and the remedy."""
    try:
        yield
    except Exception as error:  # of many classes, from several libraries
        first = cause(error)
        why = f"{type(first).__name__}: {(str(first).splitlines() or [''])[0][:160]}"
        raise BadData(f"cannot read {what} ({why}). {remedy}") from first
