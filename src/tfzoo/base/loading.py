"""Imports: of PyTorch and Lightning, no longer than they must take, and of what may be missing."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from tfzoo.base.registry import registry
from tfzoo.errors import TfzooError


@contextmanager
def quick_imports() -> Iterator[None]:
    """Context for imports of PyTorch and Lightning, which take a third less of their time in it.

    Python does not look for garbage among the many objects that they make, which stay, neither then
    nor later (``gc.freeze``). ``scipy.signal`` is a module of one name: torchmetrics imports it,
    with large parts of SciPy, to give it an old name that the package SRMRpy asks for.
    """
    if not gc.isenabled() or "lightning" in sys.modules:
        yield
        return
    gc.collect()  # what is garbage already would otherwise stay too
    gc.disable()
    stand_in: Any = ModuleType("scipy.signal")
    stand_in.hamming = None
    sys.modules.setdefault("scipy.signal", stand_in)
    try:
        yield
    finally:
        if sys.modules.get("scipy.signal") is stand_in:
            del sys.modules["scipy.signal"]
        gc.freeze()
        gc.enable()


def task_class(name: str) -> Any:
    """Import and return the class of a task.

    Raises:
        UnknownName: there is no such task.
    """
    with quick_imports():
        return registry("task").entry(name).cls


def require(package: str, extra: str) -> Any:
    """Import and return a package. Raises TfzooError where it is not installed, or broken; it says
    how to install the extra.
    """
    try:
        return import_module(package)
    except Exception as error:  # whatever a package does when it is imported
        raise TfzooError(
            f"cannot import {package} ({error}): pip install 'tfzoo[{extra}]'"
        ) from error
