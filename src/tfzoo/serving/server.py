"""Listening, and ending without losing what was asked."""

import ipaddress
import math
import signal
import socket
from typing import Any

import uvicorn

from tfzoo.errors import TfzooError
from tfzoo.serving import Limits


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address.

    Args:
        port: 0 is any free port.

    Raises:
        TfzooError: the address is taken, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise TfzooError(
            f"cannot listen on {host}, port {port}: {error}; --port 0 takes a free port"
        ) from None


def hosts_of(bound: socket.socket, host: str) -> list[str] | None:
    """The values of the header ``Host`` that are accepted, against DNS rebinding; None, any, where
    others can reach the address.
    """
    own = ipaddress.ip_address(bound.getsockname()[0]).is_loopback
    return [host, "localhost", "127.0.0.1", "[::1]"] if own else None


def address(bound: socket.socket) -> str:
    """``http://127.0.0.1:8000``."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: Any, limits: Limits) -> uvicorn.Server:
    """A server that answers what it has accepted before it ends."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
            h11_max_incomplete_event_size=2**14,
            limit_concurrency=limits.connections,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=math.ceil(limits.seconds) + 1,
            log_config=None,
            access_log=False,  # it would print what stands in an address
            server_header=False,
            ws="none",
            lifespan="on",
        )
    )


def serve(app: Any, bound: socket.socket, limits: Limits) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        KeyboardInterrupt: Ctrl-C, after the last answer.
    """
    # uvicorn raises the signal that ended it once more: SIGTERM has then done what it should, and
    # SIGINT is ignored where a shell has started the server in the background
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    make_server(app, limits).run(sockets=[bound])
