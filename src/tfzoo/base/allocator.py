"""Memory that tensors free stays in the process, for the next tensors."""

from __future__ import annotations

import ctypes
import os
import sys

VARIABLE = "TFZOO_KEEP_FREED_MEMORY"
"""The environment variable that is set to 0 to leave the allocator alone."""
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""Parameters of ``mallopt``, from glibc's ``malloc.h``."""
MAPPED_FROM = (2**30, 2**25)
"""Bytes from which an allocation is mapped by itself and returned when it is freed: the first value
that glibc takes. Before version 2.35 it takes no more than the second.
"""
READ_AT_IMPORT = {
    # PyTorch and oneDNN each keep the code of the last 1,024 products by default. Batches of other
    # lengths are products of other sizes: a training would keep code that it rarely runs again.
    "LRU_CACHE_CAPACITY": "16",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
    "THP_MEM_ALLOC_ENABLE": "1",  # huge pages, for tensors of 2 MiB and more
}
"""Variables of the environment that PyTorch and oneDNN read once, the first of them at import."""


def prepare_import() -> None:
    """Set :data:`READ_AT_IMPORT` but for what the environment has, before PyTorch is imported."""
    if is_wanted() and "torch" not in sys.modules:
        for name, value in READ_AT_IMPORT.items():
            os.environ.setdefault(name, value)


def keep_freed_memory() -> bool:
    """Let glibc's ``malloc`` keep what is freed, in place of returning it to the system.

    By default, large tensors are mapped and unmapped again and again, and the system fills each new
    page with zeros. The setting holds until the
    process ends, in all threads but those that have allocated memory before: call it first. Our
    commands call it where training or inference begins; ``import tfzoo`` does not.

    Where PyTorch has not been imported yet, large tensors get huge pages, and the code that is made
    for each size of a product is kept for the last 16 sizes in place of 1,024: three variables of
    the environment (:data:`READ_AT_IMPORT`) are set, unless they are there.

    Freed memory below 1 GiB (32 MiB before glibc 2.35) stays with the process until it ends; larger
    single tensors are returned when they are freed.

    Nothing is done under another C library or operating system, where ``MALLOC_...`` or
    ``glibc.malloc`` in ``GLIBC_TUNABLES`` is in the environment, or with
    ``TFZOO_KEEP_FREED_MEMORY=0``. Another allocator, such as jemalloc in ``LD_PRELOAD``, is not
    changed.

    Returns:
        Whether glibc keeps freed memory now.

    Source: ``man 3 mallopt``.
    """
    if not is_wanted():
        return False
    prepare_import()
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # no glibc
        return False
    kept = any(libc.mallopt(MMAP_THRESHOLD, size) for size in MAPPED_FROM)
    kept = bool(libc.mallopt(TRIM_THRESHOLD, -1)) and kept  # never
    return bool(libc.mallopt(ARENA_MAX, 1)) and kept  # other arenas return what is freed


def is_wanted() -> bool:
    """Whether the environment leaves the choice to us."""
    chosen = any(name.startswith("MALLOC_") for name in os.environ)
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return os.environ.get(VARIABLE) != "0" and not chosen and "glibc.malloc" not in tunables
