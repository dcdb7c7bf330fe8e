"""How the server and the process of its model speak: JSON, each value after its length."""

from __future__ import annotations

import json
import struct
from io import BufferedIOBase
from typing import Any

LENGTH = struct.Struct("!Q")


def packed(value: Any) -> bytes:
    """A value as it is sent."""
    content = json.dumps(value).encode()
    return LENGTH.pack(len(content)) + content


def read(stream: BufferedIOBase) -> Any:
    """The next value of a stream; None at its end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return json.loads(stream.read(*LENGTH.unpack(head)))
