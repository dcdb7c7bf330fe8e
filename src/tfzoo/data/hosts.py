"""Where a request for text at an address may go: the one rule, for an address that a recipe names
and for each redirect, which must not lead to what a recipe could not name: another protocol, this
machine, its network, a cloud's metadata server.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from socket import inet_aton, inet_ntoa

NETLOC = re.compile(r"(?:[^@/\\\s]*@)?([A-Za-z0-9._-]+)(?::\d{1,5})?")
"""``HOST``, ``HOST:PORT``, ``USER:PASSWORD@HOST:PORT``."""


class Refused(Exception):
    """A request that is not sent; the message says why."""


def ip_of(number: str) -> IPv4Address | IPv6Address:
    """An IP address without its zone; of an IPv4 address inside IPv6 the inner one."""
    found = ip_address(number.partition("%")[0])
    return (found.ipv4_mapped if isinstance(found, IPv6Address) else None) or found


def is_public(number: str) -> bool:
    """Whether an IP address is neither of this machine nor of a private network."""
    found = ip_of(number)
    return found.is_global and not found.is_multicast


def may_be_public(host: str) -> bool:
    """Whether a host, as it is written, may be a public one: a name other than ``localhost``, or
    a public IP address in any form that the system reads, such as ``127.1``.
    """
    with suppress(ValueError):
        return is_public(host)
    with suppress(OSError, UnicodeError):
        return is_public(inet_ntoa(inet_aton(host)))
    return host.rstrip(".").lower().rpartition(".")[2] not in ("", "localhost")  # a name


def refusal_of_recipe(protocol: str, netloc: str) -> str:
    """Why a recipe may not name a protocol of the web and what stands between ``://`` and the path;
    ``""`` if it may. Over ``http://`` others on the network can change the text, and the metadata
    servers of clouds give out a machine's credentials.
    """
    if protocol != "https":
        return f"a recipe does not read {protocol}://, only https://"
    if (found := NETLOC.fullmatch(netloc)) is None:
        return f"{netloc!r} is no host"
    public = may_be_public(found[1])
    return "" if public else f"{found[1]} is no public host, and a recipe reads no other"
