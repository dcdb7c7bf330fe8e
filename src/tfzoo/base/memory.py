"""How much memory there is, and a refusal in one line of what certainly needs more.

Only what is exact is refused, such as parameters and tables. It is compared with all memory that a
machine, its container or a GPU has, used or not: what is free now may be more in a minute.
"""

from __future__ import annotations

import os
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
    """The model of these options, without data.

    Raises:
        TfzooError: of the class ``error``; it has more bytes than this machine.
    """
    model = without_data(make, options)
    if (need := size(model)) > machine():
        raise error(too_large("model: parameters and tables", model, need, machine()))
    return model


def too_large(what: str, model: nn.Module, need: float, there: int, place: str = "machine") -> str:
    """A line that says what does not fit, and names the largest tensor of the model."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    name, largest = max(tensors, key=lambda one: one[1].nbytes)
    return (
        f"{what} take at least {readable(need)}, which do not fit: this {place} has "
        f"{readable(there)} of memory; the largest of {len(tensors):,} tensors is {name}, "
        f"{' x '.join(map(str, largest.shape))}"
    )
