"""How much memory there is, and a refusal in one line of what certainly needs more.

Only what is exact is refused, such as parameters, tables and the cache of a beam. It is compared
with all memory that a machine, its control group or a GPU has, used or not, swap included: what is
free now may be more in a minute. Where a platform does not say what it has, the bound is what a
process can address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn

from tfzoo.base.values import leaves, readable
from tfzoo.errors import BadRecipe, TfzooError

if TYPE_CHECKING:
    import torch
    from torch import nn

ADDRESSES = 2**47
"""The bytes that a process can address on a processor of 64 bits: more than any machine has."""
PATIENCE = 2000
"""Tensors after which the building of a model that is too large ends; more may have come."""
TRIED = 6
"""How many of the largest numbers are tried as the option that decides."""
PROC, CONTROL = Path("/proc"), Path("/sys/fs/cgroup")

Make = Callable[..., "nn.Module"]
"""Makes a model of its options."""


class TooLarge(Exception):
    """At least ``need`` bytes are needed, more than there are."""

    def __init__(self, need: float) -> None:
        self.need = need
        super().__init__()


@dataclass(frozen=True)
class Place:
    """Where memory is: its bytes, and what a message calls it."""

    bytes: int
    name: str = "this machine"


ADDRESSABLE = Place(ADDRESSES, "a process")


# What there is ------------------------------------------------------------------------------------


def machine() -> int:
    """The bytes of memory, swap included, that this process can have at most."""
    total, swap = (meminfo().get(key) for key in ("MemTotal", "SwapTotal"))
    bounds = [ADDRESSES, *control_groups(swap or 0)]
    if total is not None:
        bounds.append(total + (swap or 0))
    with suppress(ImportError, OSError, ValueError):  # no such limits on Windows
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            bounds.append(soft)
    return min(bounds)


def free() -> int:
    """The bytes of memory that are free now, or could be freed at once."""
    return min(machine(), meminfo().get("MemAvailable", ADDRESSES))


def here() -> Place:
    """This machine."""
    return Place(machine())


def gpu() -> Place:
    """The largest GPU."""
    import torch

    sizes = [
        torch.cuda.get_device_properties(index).total_memory
        for index in range(torch.cuda.device_count())
    ]
    return Place(max(sizes, default=0), "the GPU")


def free_gpu() -> Place:
    """What is free now on the GPU that has most."""
    import torch

    sizes = [torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count())]
    return Place(max(sizes, default=0), "the GPU")


def meminfo() -> dict[str, int]:
    """The bytes of each kind of memory that Linux counts; empty on other systems."""
    lines = [line.split() for line in text(PROC / "meminfo").splitlines()]
    return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if line[-1] == "kB"}


def control_groups(swap: int) -> Iterator[int]:
    """The bytes of memory and swap that each control group (version 1 or 2) of this process may
    have, as far as it is limited; ``swap`` is that of the machine.
    """
    for line in text(PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        groups = PurePosixPath(path.lstrip("/") or ".")
        for group in (groups, *groups.parents):
            if controllers:
                place = CONTROL / "memory" / group
                memory = number(place / "memory.limit_in_bytes")
                both = number(place / "memory.memsw.limit_in_bytes")
            else:
                memory = number(CONTROL / group / "memory.max")
                more = number(CONTROL / group / "memory.swap.max")
                both = None if memory is None or more is None else memory + more
            if memory is not None:
                yield min(memory + swap, memory + swap if both is None else both)


def number(path: Path) -> int | None:
    """The number in a file; None if it has none, or is not there."""
    found = text(path).strip()
    return int(found) if found.isdecimal() else None


def text(path: Path) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""


# What is needed -----------------------------------------------------------------------------------


def size(model: nn.Module) -> int:
    """The bytes of a model's parameters and tables."""
    return sum(one.numel() * one.element_size() for one in (*model.parameters(), *model.buffers()))


# What is refused ----------------------------------------------------------------------------------


def refuse(
    option: str, what: str, need: float, place: Place, error: type[TfzooError] = BadRecipe
) -> NoReturn:
    """Raise an error that names an option, what it needs and what there is."""
    raise error(
        f"{option}: {what} at least {readable(need)}, which do not fit: {place.name} has "
        f"{readable(place.bytes)} of memory"
    )


def check_model(
    make: Make,
    options: Mapping[str, Any],
    place: Place = ADDRESSABLE,
    error: type[TfzooError] = BadRecipe,
    option: str = "",
) -> nn.Module:
    """The model of these options, without data.

    Raises:
        TfzooError: of the class ``error``; it has more bytes than there are. The message names
            ``option``, or else the one that decides.
    """
    try:
        return build(make, options, place.bytes)
    except TooLarge as found:
        what = "parameters and tables take"
        refuse(option or deciding(make, options), what, found.need, place, error)


def build(make: Make, options: Mapping[str, Any], most: float, hurry: bool = False) -> nn.Module:
    """The model of these options on the device ``meta``, which allocates nothing.

    Raises:
        TooLarge: its parameters and tables have more than ``most`` bytes; or, in a ``hurry``, they
            are many.
    """
    import torch

    with counting(0 if hurry else most), torch.device("meta"):
        model = make(**options)
    if (need := size(model)) > most:
        raise TooLarge(need)
    return model


@contextmanager
def counting(most: float) -> Iterator[None]:
    """Context in which the building of a model of more than ``most`` bytes ends when its tensors
    are many, or where a tensor has more bytes than PyTorch can count.

    Raises:
        TooLarge: with the bytes up to there.
    """
    from torch.nn.modules import module

    counted: dict[int, Any] = {}
    need = 0

    def count(owner: nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        nonlocal need
        if tensor is not None and id(tensor) not in counted:
            counted[id(tensor)] = tensor  # which so keeps its id
            need += tensor.numel() * tensor.element_size()
        if need > most and len(counted) > PATIENCE:
            raise TooLarge(need)

    hooks = [
        module.register_module_parameter_registration_hook(count),
        module.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise TooLarge(2**63) from None
    finally:
        for hook in hooks:
            hook.remove()


def deciding(make: Make, options: Mapping[str, Any]) -> str:
    """The option without which a model is smallest, with its value, of those with large values; the
    largest value where there are too many tensors without any of them.
    """
    numbers = [
        (path, value)
        for path, value in leaves(options)
        if isinstance(value, int) and not isinstance(value, bool) and value > 1
    ]
    numbers.sort(key=lambda one: -one[1])
    sizes = {}
    for path, value in numbers[:TRIED]:
        with suppress(TooLarge, TfzooError, TypeError, ValueError, RuntimeError):
            sizes[path, value] = size(build(make, without(options, path), ADDRESSES, hurry=True))
    if not numbers:
        return "model"
    path, value = min(sizes, key=lambda one: sizes[one], default=numbers[0])
    return f"model.{'.'.join(path)}={value}"


def without(values: Any, path: tuple[str, ...]) -> Any:
    """Nested values without the key at a path."""
    key, *rest = path
    if isinstance(values, Mapping):
        return {
            name: without(inner, tuple(rest)) if name == key else inner
            for name, inner in values.items()
            if rest or name != key
        }
    return [
        without(inner, tuple(rest)) if str(index) == key and rest else inner
        for index, inner in enumerate(values)
    ]
