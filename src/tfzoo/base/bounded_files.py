"""Files of which the size is known before they are read."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun

NODES = 200_000
"""The most values in a checkpoint or a file of JSON; one that is referenced twice counts twice."""
JSON = 2**24
"""The most bytes of a file of JSON."""
TEXT = 2**26
"""The most bytes of the text of a tokenizer."""


def regular(path: Path, most: int | None = None) -> int:
    """The size of a file that is about to be read.

    Raises:
        BadRun: it is missing; it is no regular file, but a device or pipe that might never end; or
            it has more than ``most`` bytes.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror or error}") from None
    if not stat.S_ISREG(found.st_mode):
        raise BadRun(f"{path} is no file, but a folder, pipe or device. It was not read")
    if most is not None and found.st_size > most:
        raise BadRun(f"{path} has {found.st_size:,} bytes; the most is {most:,}. It was not read")
    return found.st_size


def text_of(path: Path, most: int) -> str:
    """The text of a regular file of limited size.

    Raises:
        BadRun: it is none, or cannot be read.
    """
    regular(path, most)
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise BadRun(f"{path} is damaged: it is not UTF-8") from None


def json_of(path: Path) -> Any:
    """The content of a file of JSON. Its values are counted before it is parsed.

    Raises:
        BadRun: it cannot be read, is no JSON, or holds too much.
    """
    text = text_of(path, JSON)
    if sum(map(text.count, ",:[{")) > NODES:  # one of them for each value; some more in strings
        raise BadRun(f"{path} holds more than {NODES:,} values. It was not read")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRun(f"{path} is damaged ({type(error).__name__}) and cannot be read") from None


def object_of(path: Path) -> dict[str, Any]:
    """The object in a file of JSON; empty where there is no file, or it is damaged."""
    try:
        found = json_of(path)
    except BadRun:
        return {}
    return found if isinstance(found, dict) else {}
