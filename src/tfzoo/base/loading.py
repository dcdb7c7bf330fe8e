"""Imports of PyTorch and Lightning that take no longer than they must."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfzoo.base.registry import registry


@contextmanager
def without_collections() -> Iterator[None]:
    """Context for imports of PyTorch and Lightning, in which Python does not look for garbage.

    They make many objects that stay, and each search would go through all of them. Later searches
    leave these objects out (``gc.freeze``), and ``gc.get_objects`` does not list them. Nothing is
    done where Lightning has been imported, or collections are switched off.
    """
    if not gc.isenabled() or "lightning" in sys.modules:
        yield
        return
    gc.collect()  # what is garbage already would otherwise stay too
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def task_class(name: str) -> Any:
    """Import and return the class of a task.

    Raises:
        UnknownName: there is no such task.
    """
    with without_collections():
        return registry("task").entry(name).cls
