"""A progress bar on stderr for slow preparation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def watched(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """The same items, with a progress bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, total, console=Console(stderr=True), transient=True)
