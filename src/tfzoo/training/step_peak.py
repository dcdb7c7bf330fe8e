"""The memory that a training step takes at its peak, found from the shapes of its tensors.

The step runs on tensors without data, and what it would hold at each moment is added up. PyTorch's
own ``FakeTensor`` would do; it takes five times as long, and fails where a part looks at its data.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tfzoo.base import adapters

Model = TypeVar("Model", bound=nn.Module)
META = torch.device("meta")
OVERHEAD = 1.2
"""What a process has from the system, as a multiple of what its tensors hold: memory that was freed
is kept for the next tensor, which may not fit into it.
"""


class Unknown(Exception):
    """What is computed depends on data, or the time is over."""


def step_peak(
    make: Callable[[], Model],
    loss: Callable[[Model], Tensor],
    device: torch.device | None = None,
    seconds: float = math.inf,
) -> int:
    """The most bytes that a forward and a backward pass in training mode hold at a moment, beside
    the model and with gradients. Nothing is computed, and hardly any memory taken.

    Args:
        make: makes the model; on ``device`` without being told.
        loss: computes the loss.
        device: where the tensors would be; None: the CPU.
        seconds: the most time to spend.

    Raises:
        Unknown: it cannot be known without data, or not in this time.
    """
    recorder = Recorder(device or torch.device("cpu"), seconds)
    with recorder:
        model = make().train()
        before = recorder.peak = recorder.held
        loss(model).backward()
        return recorder.peak - before


class Shape(torch.Tensor):
    """A tensor of a device, without data. ``on_meta``, on the device ``meta``, has its shape."""

    on_meta: Tensor

    @staticmethod
    def __new__(cls, on_meta: Tensor, device: torch.device) -> Shape:
        made: Shape = adapters.tensor_of_class(cls, on_meta, device)
        made.on_meta = on_meta
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch types what it puts here by itself
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return NotImplemented  # a Recorder runs operations

    def tolist(self) -> Any:
        raise Unknown


class Recorder(TorchDispatchMode):
    """Runs operations on shapes alone. ``held`` are the bytes of the tensors that exist at this
    moment, ``peak`` is their maximum.
    """

    def __init__(self, device: torch.device, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.device = device
        self.end = perf_counter() + seconds
        self.held = self.peak = 0
        self.storages: weakref.WeakSet[Any] = weakref.WeakSet()
        self.results: dict[Any, Any] = {}
        """What is known of the results of operations that make a new tensor."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The result of an operation, without its data.

        Raises:
            Unknown: as :func:`step_peak`.
        """
        kwargs = kwargs or {}
        if func in ASSUMED:
            return ASSUMED[func](*args, **kwargs)
        if torch.Tag.inplace_view in func.tags:
            func(without_data(args[0]), *args[1:], **kwargs)
            with adapters.without_subclasses():
                return func(*args, **kwargs)
        if isinstance(target := written(func, args, kwargs), Tensor):
            return target  # which has its shape already
        if perf_counter() > self.end:
            raise Unknown
        return self.result(func, without_data(args), without_data(kwargs))

    def result(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operation on tensors of ``meta``."""
        call = func, signature(args), signature(kwargs)
        if call in self.results:
            shape, stride, dtype = self.results[call]
            out: Any = torch.empty_strided(shape, stride, dtype=dtype, device=META)
        else:
            out = func(*args, **kwargs)
            if isinstance(out, Tensor) and out.untyped_storage() not in self.storages:
                self.results[call] = signature(out)
        return self.kept(out)

    def kept(self, out: Any) -> Any:
        """A result as tensors of the device; new ones are counted as long as they exist."""
        if isinstance(out, list | tuple):
            return type(out)(map(self.kept, out))
        if not isinstance(out, Tensor):
            return out
        storage = out.untyped_storage()
        if storage not in self.storages:
            self.storages.add(storage)
            self.held += storage.nbytes()
            self.peak = max(self.peak, self.held)
            weakref.finalize(storage, self.release, storage.nbytes())
        return Shape(out, self.device)

    def release(self, size: int) -> None:
        self.held -= size


def written(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The tensor into which an operation writes, if it returns that."""
    if "out" in kwargs:
        return kwargs["out"]
    return args[0] if func.overloadpacket.__name__.endswith("_") else None


def without_data(value: Any) -> Any:
    """An argument of an operation, with ``meta`` for each device."""
    if isinstance(value, Shape):
        return value.on_meta
    if isinstance(value, Tensor):
        return value.to(META)
    if isinstance(value, list | tuple):
        return tuple(map(without_data, value))
    if isinstance(value, dict):
        return {key: META if key == "device" else without_data(one) for key, one in value.items()}
    return value


def signature(value: Any) -> Any:
    """What decides the shape of a result."""
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype
    if isinstance(value, dict):
        value = tuple(value.items())
    return tuple(map(signature, value)) if isinstance(value, tuple) else (type(value), value)


def scalar(tensor: Tensor) -> bool:
    """A condition holds; a number is not known."""
    if tensor.dtype != torch.bool:
        raise Unknown
    return True


def evenly(tensor: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Each number comes as often."""
    bins = max(1, minlength)
    return torch.tensor([(tensor.numel() + index) // bins for index in range(bins)])


ASSUMED: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._local_scalar_dense.default: scalar,
    torch.ops.aten.bincount.default: evenly,
}
"""What is assumed of data by operations that look at it."""
