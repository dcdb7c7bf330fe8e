"""Files that are read whole, whoever wrote them."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from tfzoo.errors import BadRun


def check_regular(path: Path) -> None:
    """Check a file that is about to be read.

    Raises:
        BadRun: it is missing, or no regular file, but a device or pipe that might never end.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror or error}") from None
    if not stat.S_ISREG(mode):
        raise BadRun(f"{path} is no file, but a folder, pipe or device. It was not read")


def text_of(path: Path) -> str:
    """The text of a regular file.

    Raises:
        BadRun: it is none, cannot be read, or is not UTF-8.
    """
    check_regular(path)
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise BadRun(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise BadRun(f"{path} is damaged: it is not UTF-8") from None


def json_of(path: Path) -> Any:
    """The content of a file of JSON.

    Raises:
        BadRun: it cannot be read, or is no JSON.
    """
    text = text_of(path)
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
