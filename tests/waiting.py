"""Wait for what another thread or process does."""

import time
from collections.abc import Callable
from typing import Any


def soon(true: Callable[[], Any], seconds: float = 120) -> Any:
    """Wait until something is true; returns it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
    return found
