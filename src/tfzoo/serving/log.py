"""The lines that a server prints: so many at once, and then so many a second. What clients do
cannot fill a disk.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfzoo.base.terminal import notify

BURST = 200
"""Lines that are printed at once."""
RATE = 2.0
"""Lines a second after that."""
LONGEST = 200
"""Characters of a line."""


class Log:
    """Prints lines within the limits above, and how many it has left out."""

    def __init__(self) -> None:
        self.left, self.last, self.left_out = float(BURST), time.monotonic(), 0

    def __call__(self, line: str) -> None:
        """Print a line, or count it."""
        now = time.monotonic()
        self.left, self.last = min(BURST, self.left + RATE * (now - self.last)), now
        if self.left < 1:
            self.left_out += 1
            return
        self.left -= 1
        if self.left_out:
            notify(f"... {self.left_out:,} more lines")
            self.left_out = 0
        notify(line if len(line) <= LONGEST else f"{line[:LONGEST]}...")


note = Log()
"""The log of this process."""


def place_of(error: Exception) -> str:
    """The type of an error and where it was raised. Its message may hold a text."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}"


class Handler(logging.Handler):
    """Prints what libraries log as one line each: the first one, and the type of an exception."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        lines = record.getMessage().splitlines() or [""]
        kind = record.exc_info[0] if record.exc_info else None
        note(f"tfzoo: {lines[0]}" + (f": {kind.__name__}" if kind else ""))


@contextmanager
def bounded() -> Iterator[None]:
    """Print what uvicorn and asyncio log within the limits."""
    handler = Handler(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagated in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagated
