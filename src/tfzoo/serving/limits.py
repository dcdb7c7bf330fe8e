"""What a request may ask for, and how a request that asks for more is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tfzoo.errors import TfzooError

MOST = 10**9


@dataclass(frozen=True)
class Limits:
    """Limits of one server.

    Args:
        characters: of one text.
        texts: of one request.
        bytes: of the body of one request.
        seconds: from the first byte of a request to its answer, the wait for the model included.
        waiting: requests that wait for the model.

    Raises:
        TfzooError: a limit that lets nothing through.
    """

    characters: int = 2_000
    texts: int = 64
    bytes: int = 1_000_000
    seconds: float = 30.0
    waiting: int = 64

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not (0 < value <= MOST or (value == 0 and one.name == "waiting")):
                raise TfzooError(f"--max-{one.name} {value:g} must be above 0, up to {MOST:,}")


class Refused(Exception):
    """A request without an answer: the HTTP status, and one sentence that says why."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


class ClientGone(Exception):
    """The client has closed its connection before it got an answer."""
