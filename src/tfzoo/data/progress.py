"""A progress bar on stderr for slow preparation."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds before the bar appears."""

STEP = 1000
"""Items between two checks of the time."""


def watched(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The same items, with a progress bar if stderr is a terminal and it takes over a second."""
    if not sys.stderr.isatty():
        yield from items
        return
    begun = time.monotonic()
    bar: Progress | None = None
    try:
        for count, item in enumerate(items):
            yield item
            if count % STEP == 0 and time.monotonic() > begun + PATIENCE:
                bar = bar or start(what, total)
                bar.update(bar.task_ids[0], completed=count)
    finally:
        if bar is not None:
            bar.stop()


def start(what: str, total: int | None) -> Progress:
    """A visible progress bar."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(what, total=total)
    bar.start()
    return bar
