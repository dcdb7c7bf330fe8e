"""Memory that tensors free stays in the process, for the next tensors."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from tfzoo.errors import BadOption

VARIABLE = "TFZOO_KEEP_FREED_MEMORY"
"""The environment variable that is set to 0 to leave the allocator alone."""
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""Parameters of ``mallopt``, from glibc's ``malloc.h``."""
MAPPED_FROM = (2**30, 2**25)
"""Bytes from which an allocation is mapped by itself and returned when it is freed: the first value
that glibc takes. Before version 2.35 it takes no more than the second.
"""
PRODUCTS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
"""How many products oneDNN keeps the code of. By default it is 1,024: batches of other lengths are
products of other sizes, and a training keeps code that it rarely runs again.
"""

GROWTH = 1.1
"""How far a training may grow beyond what a step takes before free memory is returned."""
_kept: list[ctypes.CDLL] = []
"""The C library, once freed memory is kept."""


def keep_freed_memory() -> bool:
    """Let glibc's ``malloc`` keep what is freed, in place of returning it to the system.

    By default, large tensors are mapped and unmapped again and again, and the system fills each new
    page with zeros; ``benchmarks/allocator.md`` says what that takes. The setting holds until the
    process ends, in all threads but those that have allocated memory before: call it first. Our
    commands call it where training or inference begins; ``import tfzoo`` does not.

    The code that oneDNN makes for each size of a product is kept for the last 64 sizes, in place of
    1,024, unless ``ONEDNN_PRIMITIVE_CACHE_CAPACITY`` is in the environment.

    Freed memory below 1 GiB (32 MiB before glibc 2.35) stays with the process until it ends, or a
    training has grown by a tenth (:class:`Fragments`); larger single tensors are returned when they
    are freed.

    Nothing is done under another C library or operating system, under another allocator, such as
    jemalloc in ``LD_PRELOAD``, where ``MALLOC_...`` or ``glibc.malloc`` in ``GLIBC_TUNABLES`` is in
    the environment, or with ``TFZOO_KEEP_FREED_MEMORY=0``.

    Returns:
        Whether freed memory is now kept.

    Raises:
        BadOption: ``TFZOO_KEEP_FREED_MEMORY`` is neither 0 nor 1.

    Source: ``man 3 mallopt``.
    """
    if not is_wanted() or (libc := glibc()) is None:
        return False
    os.environ.setdefault(*PRODUCTS)  # read at the first product
    kept = any(libc.mallopt(MMAP_THRESHOLD, size) for size in MAPPED_FROM)
    kept = bool(libc.mallopt(TRIM_THRESHOLD, -1)) and kept  # never
    kept = bool(libc.mallopt(ARENA_MAX, 1)) and kept  # other arenas return what is freed
    _kept[:] = [libc] if kept else []
    return kept


class Fragments:
    """Returns the free memory of a training that has grown, because batches of other shapes do not
    fit into what was freed.

    Without it, a process grows for some dozens of steps. After it, the next step takes the pages
    anew, with a page fault for each.
    """

    def __init__(self) -> None:
        self.limit, self.returned = 0.0, True

    def check(self) -> None:
        """Call it between two steps, when no tensor of a step is left."""
        if not _kept:
            return
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        if self.returned:  # what the last step took, and nothing else
            self.limit, self.returned = max(self.limit, GROWTH * pages), False
        elif pages > self.limit:
            _kept[0].malloc_trim(0)
            self.returned = True


def is_wanted() -> bool:
    """Whether the environment leaves the choice to us.

    Raises:
        BadOption: :data:`VARIABLE` is neither 0 nor 1.
    """
    given = os.environ.get(VARIABLE, "1")
    if given not in ("0", "1"):
        raise BadOption(f"{VARIABLE}={given}: set it to 0 to leave the allocator alone, or to 1")
    chosen = any(name.startswith("MALLOC_") for name in os.environ)
    return (
        given == "1" and not chosen and "glibc.malloc" not in os.environ.get("GLIBC_TUNABLES", "")
    )


def glibc() -> ctypes.CDLL | None:
    """The C library if it is glibc and its ``malloc`` is the one that is called, else None."""
    if sys.platform != "linux":
        return None
    process = ctypes.CDLL(None)
    if not hasattr(process, "gnu_get_libc_version"):  # musl
        return None
    libc = ctypes.CDLL("libc.so.6")
    called, own = (ctypes.cast(one.malloc, ctypes.c_void_p).value for one in (process, libc))
    return libc if called == own else None
