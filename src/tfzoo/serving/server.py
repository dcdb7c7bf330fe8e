"""Listening, how long a client may take, and ending without losing what was asked."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import os
import signal
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tfzoo.errors import TfzooError
from tfzoo.serving.limits import BACKLOG, HEADERS, Limits, most_connections
from tfzoo.serving.log import bounded


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address, which does not yet accept connections.

    Args:
        port: 0 is any free port.

    Raises:
        TfzooError: the address is taken, or not of this machine.
    """
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        bound = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":  # elsewhere it would share the port with another server
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise TfzooError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; "
            "--port 0 takes a free port"
        ) from None
    return bound


def is_loopback(bound: socket.socket) -> bool:
    """Whether the address can be reached from this machine alone."""
    return ipaddress.ip_address(bound.getsockname()[0]).is_loopback


def hosts_of(bound: socket.socket, host: str) -> frozenset[str] | None:
    """The values of the header ``Host`` that are accepted; None, any, on another address than the
    loopback one.
    """
    own = frozenset({host.lower(), "localhost", "127.0.0.1", "::1"})
    return own if is_loopback(bound) else None


def address(bound: socket.socket) -> str:
    """``http://127.0.0.1:8000``."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Connection(H11Protocol):
    """A connection of uvicorn with limits that uvicorn has not.

    - The headers of a request arrive within :data:`~tfzoo.serving.limits.HEADERS` seconds.
    - A request ends, its answer sent, within twice the seconds of a request and one more.
    - Where there are too many connections, the oldest one that sends no request makes room; where
      all do, the new one is told to come back.
    """

    limits: Limits
    """Of the server; :func:`make_server` sets them."""
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


def make_server(app: Any, limits: Limits) -> uvicorn.Server:
    """A server that answers what it has accepted before it ends."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            http=type("LimitedConnection", (Connection,), {"limits": limits}),
            backlog=BACKLOG,
            lifespan="on",
            timeout_graceful_shutdown=math.ceil(limits.longest),
        )
    )


def serve(app: Any, bound: socket.socket, limits: Limits) -> None:
    """Serve until SIGTERM or Ctrl-C; a second Ctrl-C does not wait for answers.

    Raises:
        KeyboardInterrupt: Ctrl-C, after the last answer.
    """
    # uvicorn raises the signal that ended it once more. SIGTERM has done what it should. SIGINT is
    # ignored where a shell has started the server in the background.
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: None),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    try:
        with bounded():
            make_server(app, limits).run(sockets=[bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
