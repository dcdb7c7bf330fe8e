"""How much memory there is, and a refusal in one line of what certainly needs more.

Only what is exact is refused, such as parameters and tables. It is compared with all memory that a
machine, its control group or a GPU has, used or not, swap included: what is free now may be more in
a minute. Where a platform does not say what it has, the bound is what a process can address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tfzoo.base.values import readable
from tfzoo.errors import BadRecipe, TfzooError

if TYPE_CHECKING:
    from torch import nn

ADDRESSES = 2**47
"""The bytes that a process can address on a processor of 64 bits: more than any machine has."""
PROC, CONTROL = Path("/proc"), Path("/sys/fs/cgroup")


def machine() -> int:
    """The bytes of memory, swap included, that this process can have at most."""
    sizes = meminfo()
    whole = sizes.get("MemTotal", ADDRESSES) + sizes.get("SwapTotal", 0)
    return min(ADDRESSES, whole, *control_groups())


def free() -> int:
    """The bytes of memory that are free now, or could be freed at once."""
    return min(machine(), meminfo().get("MemAvailable", ADDRESSES))


def meminfo() -> dict[str, int]:
    """The bytes of each kind of memory that Linux counts; empty on other systems."""
    lines = [line.split() for line in text(PROC / "meminfo").splitlines()]
    return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if line[-1] == "kB"}


def control_groups() -> Iterator[int]:
    """The bytes of memory of each control group (version 1 or 2) of this process, as far as it is
    limited.
    """
    for line in text(PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, name = (
            (CONTROL / "memory", "memory.limit_in_bytes")
            if controllers
            else (CONTROL, "memory.max")
        )
        group = PurePosixPath(path.lstrip("/") or ".")
        for folder in (group, *group.parents):
            if (limit := text(root / folder / name).strip()).isdecimal():
                yield int(limit)


def text(path: Path) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""


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
    try:
        model = without_data(make, options)
    except RuntimeError as overflow:
        if "overflow" not in str(overflow):
            raise
        raise error("model: a parameter or table has more bytes than can be counted") from None
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
