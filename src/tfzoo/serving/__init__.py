"""A trained run behind HTTP: a page to type a text into, and a JSON API (``tfzoo serve``)."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Limits of one server.

    Args:
        characters: of one text.
        texts: of one request.
        bytes: of the body of one request.
        seconds: until the model has answered a request, its wait included.
        waiting: requests that wait for the model.
        connections: of clients.
    """

    characters: int = 2_000
    texts: int = 64
    bytes: int = 1_000_000
    seconds: float = 30.0
    waiting: int = 64
    connections: int = 256
