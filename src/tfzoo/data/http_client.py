"""The client of ``https://`` and ``http://`` addresses: each request is checked by
:mod:`tfzoo.data.hosts`, the first one and those that follow redirects.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from socket import AddressFamily
from typing import Any

import aiohttp
from aiohttp.abc import ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from tfzoo.data.hosts import Refused, ip_of, is_public, refusal_of_recipe

SILENCE = 30.0
"""Seconds after which a server that sends nothing is given up."""


class Resolver(ThreadedResolver):
    """Finds the IP addresses of a name: of a host other than ``first`` public ones alone, and none
    that is link-local, as the metadata servers of clouds are.
    """

    def __init__(self, first: str) -> None:
        super().__init__()
        self.first = first

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AddressFamily.AF_INET
    ) -> list[ResolveResult]:
        found = await super().resolve(host, port, family)
        kept = [
            one
            for one in found
            if is_public(one["host"])
            or (host == self.first and not ip_of(one["host"]).is_link_local)
        ]
        if not kept:
            raise Refused(f"{host} is no public host, a request to it is refused")
        return kept


def refusal_of_redirect(first: URL, target: URL) -> str:
    """Why a request for the address ``first`` may not go to ``target``; ``""`` if it may: it has
    the same protocol, host and port, or those that a recipe may name.
    """
    same = target.origin() == first.origin()
    return "" if same else refusal_of_recipe(target.scheme, f"{target.host}:{target.port}")


def client(address: str) -> Callable[..., Awaitable[aiohttp.ClientSession]]:
    """What fsspec calls to make the client for an address."""
    first = URL(address)

    async def check(request: Any, send: Any) -> Any:
        if why := refusal_of_redirect(first, request.url):
            raise Refused(f"a redirect is refused: {why}")
        return await send(request)

    async def make(**_: Any) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=Resolver(first.host or ""), ssl=ssl.create_default_context()
        )
        timeout = aiohttp.ClientTimeout(sock_connect=SILENCE, sock_read=SILENCE)
        return aiohttp.ClientSession(connector=connector, timeout=timeout, middlewares=[check])

    return make
