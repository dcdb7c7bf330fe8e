"""What is checked before a request reaches the application: where it comes from, its size, and the
time that it takes to arrive.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response

from tfzoo.serving.limits import ClientGone, Limits, Refused
from tfzoo.serving.log import note, place_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": "frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer. ``no-store``: no browser keeps texts. ``same-origin``: a form's request says
where it comes from to this server alone.
"""


class Guard:
    """ASGI middleware: reads the body of a request, within limits, before the application runs;
    answers what is ``Refused``, here or there; and writes one line about each request, with sizes
    and without text.

    Args:
        app: the application.
        limits: of size and time.
        refusal: makes the response of a request that is refused.
        paths: those that the line names; others may hold anything.
        hosts: the names by which a browser may call this server, against DNS rebinding; None: any.
    """

    def __init__(
        self,
        app: App,
        limits: Limits,
        refusal: Callable[[Request, Refused], Response],
        paths: frozenset[str],
        hosts: frozenset[str] | None = None,
    ) -> None:
        self.app, self.limits, self.refusal = app, limits, refusal
        self.paths, self.hosts = paths, hosts

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server starts or ends
            return await self.app(scope, receive, send)
        started, status = time.monotonic(), 499
        size = 0
        asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            check_host(Headers(scope=scope), self.hosts)
            check_origin(Headers(scope=scope))
            body = await self._read(scope, receive)
            size = len(body)
            await self.app(asked, replay(body, receive), answer)
        except Refused as refused:
            await self.refusal(Request(scope), refused)(scope, receive, answer)
        except ClientGone:
            pass
        except Exception as error:
            if status != 499:  # an answer has begun
                raise
            note(f"tfzoo: {place_of(error)}")
            failure = Refused(500, f"the server failed: {type(error).__name__}")
            await self.refusal(Request(scope), failure)(scope, receive, answer)
        path = scope["path"] if scope["path"] in self.paths else "another path"
        seconds = time.monotonic() - started
        note(f"{scope['method'][:8]} {path}: {size:,} bytes, {status}, {seconds:.2f} s")

    async def _read(self, scope: Any, receive: Receive) -> bytes:
        """The body.

        Raises:
            Refused: it is too large, or takes too long.
            ClientGone: the connection is closed.
        """
        most, seconds = self.limits.bytes, self.limits.seconds
        length = Headers(scope=scope).get("content-length", "")
        size = int(length) if length.isdecimal() else 0  # as announced
        body = bytearray()
        more = True
        try:
            async with asyncio.timeout(seconds):
                while more and size <= most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    size = max(size, len(body))
        except TimeoutError:
            raise Refused(408, f"the request took longer than {seconds:g} seconds") from None
        if size > most:
            raise Refused(413, f"the request is larger than {most:,} bytes")
        return bytes(body)


def check_host(headers: Headers, hosts: frozenset[str] | None) -> None:
    """Refuse a request that calls the server by a name that is not its own.

    Raises:
        Refused: the header ``Host`` names another.
    """
    try:
        found = urlsplit(f"//{headers.get('host', '')}").hostname
    except ValueError:
        found = None
    if hosts is not None and found not in hosts:
        raise Refused(400, "the header Host does not name this server")


def check_origin(headers: Headers) -> None:
    """Refuse what the page of another site sends through a user's browser.

    Raises:
        Refused: the request's ``Origin`` is not this server.
    """
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        raise Refused(403, "requests from pages of other sites are refused")


def replay(body: bytes, receive: Receive) -> Receive:
    """``receive`` with the body again as its first message."""
    read = False

    async def again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
