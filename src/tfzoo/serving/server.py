"""Listening, and ending without losing what was asked."""

from __future__ import annotations

import ipaddress
import math
import os
import signal
import socket
from typing import Any

import uvicorn

from tfzoo.errors import TfzooError
from tfzoo.serving.connection import connection
from tfzoo.serving.limits import BACKLOG, Limits
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
            http=connection(limits),
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
