"""What a request may ask for, and how a request that asks for more is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tfzoo.errors import TfzooError

MOST = 10**9
HEADERS = 10.0
"""Seconds in which the headers of a request arrive."""
BACKLOG = 128
"""Connections that may be made and not yet be accepted."""
FILES = 64
"""Files that the server has open besides connections."""


@dataclass(frozen=True)
class Limits:
    """Limits of one server.

    Args:
        characters: of one text.
        texts: of one request.
        bytes: of the body of one request.
        seconds: from the first byte of a request to its answer, the wait for the model included.
        waiting: requests that wait for the model.
        connections: of clients.

    Raises:
        TfzooError: a limit that lets nothing through.
    """

    characters: int = 2_000
    texts: int = 64
    bytes: int = 1_000_000
    seconds: float = 30.0
    waiting: int = 64
    connections: int = 256

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not (0 < value <= MOST or (value == 0 and one.name == "waiting")):
                raise TfzooError(f"--max-{one.name} {value:g} must be above 0, up to {MOST:,}")

    @property
    def longest(self) -> float:
        """Seconds that a request takes at most: to arrive and be computed, and to be sent."""
        return 2 * self.seconds + 1


def most_connections(limits: Limits) -> int:
    """The connections of a server: fewer than its limit where the system lets a process open fewer
    files.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return limits.connections
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, files - BACKLOG - FILES))


class Refused(Exception):
    """A request without an answer: the HTTP status, and one sentence that says why."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


class ClientGone(Exception):
    """The client has closed its connection before it got an answer."""
