"""Memory: how much there is, used or not; a refusal of what certainly needs more; and freed memory
that stays in the process for the next tensors.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base.values import readable
from tfzoo.errors import BadRecipe, TfzooError

if TYPE_CHECKING:
    from torch import nn

LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The files with the limit of a container, by version 2 and 1 of Linux's control groups."""
RAN_OUT = (
    *("out of memory", "can't allocate memory", "not enough memory"),
    *("bad_alloc", "Cannot allocate memory"),
)
"""Words in errors of PyTorch and of the system that say that memory ran out."""
ADDRESSES = 2**47
"""The bytes that a process can address, where a system does not say what it has."""
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


def machine() -> int:
    """The bytes of memory that this process can have at most."""
    there = ADDRESSES
    if hasattr(os, "sysconf"):
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [path.read_text("utf-8").strip() for path in LIMITS if path.is_file()]
    return min(there, *(int(limit) for limit in limits if limit.isdecimal()), ADDRESSES)


def size(model: nn.Module) -> int:
    """The bytes of a model's parameters and tables."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def without_data(make: Callable[..., nn.Module], options: Mapping[str, Any]) -> nn.Module:
    """The model of these options on the device ``meta``, which allocates nothing."""
    import torch

    with torch.device("meta"):
        return make(**options)


def check_model(
    make: Callable[..., nn.Module], options: Mapping[str, Any], error: type[TfzooError] = BadRecipe
) -> nn.Module:
    """The model of these options, without data; ``error`` where this machine has too few bytes."""
    model = without_data(make, options)
    if (need := size(model)) > machine():
        raise error(too_large("model: parameters and tables", model, need, machine()))
    return model


def too_large(what: str, model: nn.Module, need: float, there: int, place: str = "machine") -> str:
    """A line that says what does not fit, and names the largest tensor of the model."""
    tensors = *model.named_parameters(), *model.named_buffers()
    name, largest = max(tensors, key=lambda one: one[1].nbytes)
    return (
        f"{what} take at least {readable(need)}, which do not fit: this {place} has "
        f"{readable(there)} of memory; the largest tensor is {name}, "
        f"{' x '.join(map(str, largest.shape))}"
    )


def keep_freed_memory() -> bool:
    """Let glibc's ``malloc`` keep what is freed, in place of returning it to the system, which
    fills each new page with zeros. Returns whether it does (``man 3 mallopt``).

    It holds until the process ends, in all threads but those that have allocated memory before:
    call it first. Our commands do where training or inference begins; ``import tfzoo`` does not.
    Single tensors from 1 GiB (32 MiB before glibc 2.35) are returned all the same. Where PyTorch
    has not been imported yet, :data:`READ_AT_IMPORT` is set too.

    Nothing is done under another C library or operating system, where ``MALLOC_...`` or
    ``glibc.malloc`` in ``GLIBC_TUNABLES`` is in the environment, or with
    ``TFZOO_KEEP_FREED_MEMORY=0``.
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


def prepare_import() -> None:
    """Set :data:`READ_AT_IMPORT` but for what the environment has, before PyTorch is imported."""
    if is_wanted() and "torch" not in sys.modules:
        for name, value in READ_AT_IMPORT.items():
            os.environ.setdefault(name, value)


def is_wanted() -> bool:
    """Whether the environment leaves the choice to us."""
    chosen = any(name.startswith("MALLOC_") for name in os.environ)
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return os.environ.get(VARIABLE) != "0" and not chosen and "glibc.malloc" not in tunables
