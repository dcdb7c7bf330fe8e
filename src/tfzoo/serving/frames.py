"""How the server and the process of its model speak: JSON, each value after its length."""

from __future__ import annotations

import json
import struct
from typing import Any, Protocol

LENGTH = struct.Struct("!Q")


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """So many bytes, fewer at the end."""


def packed(value: Any) -> bytes:
    """A value as it is sent."""
    content = json.dumps(value).encode()
    return LENGTH.pack(len(content)) + content


def read(stream: Readable) -> Any:
    """The next value of a stream; None at its end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return json.loads(stream.read(*LENGTH.unpack(head)))
