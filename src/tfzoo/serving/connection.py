"""A connection of the server: how long a client may take, and how many there may be."""

from __future__ import annotations

import asyncio
import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tfzoo.serving.limits import HEADERS, Limits, most_connections


class Connection(H11Protocol):
    """A connection of uvicorn with limits that uvicorn has not.

    - The headers of a request arrive within :data:`~tfzoo.serving.limits.HEADERS` seconds.
    - A request ends, its answer sent, within twice the seconds of a request and one more.
    - Where there are too many connections, the oldest one that sends no request makes room; where
      all do, the new one is told to come back.
    """

    limits: Limits
    """Of the server; :func:`connection` sets them."""
    answering: object | None = None
    """The request that is being read or answered; None between requests."""
    since = 0.0
    """When that began, or the last one ended."""
    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Make room, and wait for headers."""
        super().connection_made(transport)
        self._begin(None)
        if len(self.connections) <= most_connections(self.limits):
            return
        idle = [
            one
            for one in self.connections
            if isinstance(one, Connection) and one is not self and one.answering is None
        ]
        if idle:
            min(idle, key=lambda one: one.since).end()
        else:
            self.refuse(503, "too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        if self.timer is not None:
            self.timer.cancel()

    def handle_events(self) -> None:
        """Read what has arrived; the time of a request begins when its headers are complete."""
        super().handle_events()
        self._look()

    def on_response_complete(self) -> None:
        """The time for the headers of the next request begins."""
        super().on_response_complete()
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Say that a request is not HTTP."""
        self.refuse(400, "this is no HTTP request")

    def refuse(self, status: int, why: str) -> None:
        """Answer a request that has not become one, and close the connection."""
        content = json.dumps({"error": why}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(content))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def end(self) -> None:
        """Close the connection at once; it no longer counts."""
        self.connections.discard(self)
        self.transport.abort()

    def _look(self) -> None:
        """Begin a new time where another request is answered than before, or none any more."""
        now = None if self.cycle is None or self.cycle.response_complete else self.cycle
        if now is not self.answering:
            self._begin(now)

    def _begin(self, answering: object | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.answering, self.since = answering, self.loop.time()
        seconds = HEADERS if answering is None else self.limits.longest
        self.timer = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        begun = self.answering is None and self.conn.trailing_data[0]
        if begun and self.conn.our_state is h11.IDLE:
            self.refuse(408, f"the headers took longer than {HEADERS:g} seconds")
        else:
            self.end()


def connection(limits: Limits) -> type[Connection]:
    """What uvicorn makes a connection with."""
    return type("LimitedConnection", (Connection,), {"limits": limits})
