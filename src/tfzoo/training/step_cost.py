"""What a training step costs, by part of the model, counted without computing it: matrix products,
computed values, saved bytes and parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from tfzoo.base import adapters
from tfzoo.contracts import Component
from tfzoo.learning.cross_entropy import cross_entropy
from tfzoo.models.language_model import LanguageModel
from tfzoo.models.multihead import CrossAttention
from tfzoo.models.transformer import Transformer

MODEL = "model"
"""The part of what lies in no other."""
BACKWARD = "backward"
"""The part to which the operations of a backward pass belong."""


@dataclass
class Cost:
    """What a part takes.

    Args:
        products: operations of matrix products; a multiplication and an addition are two.
        values: numbers that other operations computed.
        saved: bytes that the forward pass keeps for the backward pass, without parameters.
        parameters: trained numbers.
    """

    products: float = 0
    values: float = 0
    saved: float = 0
    parameters: int = 0


@dataclass
class Counter:
    """The parts of a model, and what each took while :meth:`counting`.

    A module belongs to the component that it lies in, and to the child of ``model`` that this lies
    in. Layers are added up.
    """

    model: nn.Module

    def __post_init__(self) -> None:
        self.costs: dict[str, Cost] = defaultdict(Cost)
        self.part_of = {
            module: part_name(self.model, name) for name, module in self.model.named_modules()
        }
        for part in self.part_of.values():  # in the order of the model
            self.costs[part] = Cost()
        self.inside: list[str] = []
        """The parts of the modules that are running, the innermost last."""
        for name, parameter in self.model.named_parameters():  # a tied one comes once
            owner = self.model.get_submodule(name.rpartition(".")[0])
            self.costs[self.part_of[owner]].parameters += parameter.numel()
        tensors = (*self.model.parameters(), *self.model.buffers())
        self.storages = {one.untyped_storage() for one in tensors}
        """Those that are saved already, or need not be. A storage is one object for all views."""

    @property
    def part(self) -> str:
        """The part that is running."""
        return self.inside[-1] if self.inside else BACKWARD

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is computed inside the context."""
        saving = torch.autograd.graph.saved_tensors_hooks(self.save, lambda saved: saved)
        with ExitStack() as hooks, saving, Operations(self):
            for name, module in self.model.named_modules():
                part, parent = self.part_of[module], name.rpartition(".")[0]
                if name and part == self.part_of[self.model.get_submodule(parent)]:
                    continue
                hooks.enter_context(module.register_forward_pre_hook(self.entering(part)))
                hooks.enter_context(module.register_forward_hook(self.leave, always_call=True))
            yield

    @contextmanager
    def running(self, part: str) -> Iterator[None]:
        """What is computed inside the context, but in no module, belongs to ``part``."""
        self.inside.append(part)
        try:
            yield
        finally:
            self.inside.pop()

    def entering(self, part: str) -> Callable[..., None]:
        return lambda module, args: self.inside.append(part)

    def leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self.inside.pop()

    def save(self, tensor: Tensor) -> Tensor:
        """Count the bytes of a tensor that autograd keeps; views of one are counted once."""
        storage = tensor.untyped_storage()
        if self.inside and storage not in self.storages:
            self.storages.add(storage)
            self.costs[self.part].saved += storage.nbytes()
        return tensor


class Operations(TorchDispatchMode):
    """Adds each operation of PyTorch to the part that is running."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.counter = counter

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation and count it."""
        out = func(*args, **(kwargs or {}))
        cost = self.counter.costs[self.counter.part]
        formula = FORMULAS.get(func.overloadpacket)
        if formula is not None:
            cost.products += formula(*args, **(kwargs or {}), out_val=out)
        elif not func.is_view:
            outputs = out if isinstance(out, tuple | list) else [out]
            cost.values += sum(one.numel() for one in outputs if isinstance(one, Tensor))
        return out


def fused_forward(q: Any, k: Any, v: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """The products of PyTorch's attention kernel for CPUs."""
    return int(sdpa_flop_count(q.shape, k.shape, v.shape))


def fused_backward(
    grad: Any, q: Any, k: Any, v: Any, *args: Any, out_val: Any = None, **kwargs: Any
) -> int:
    """It computes the scores again: five products in place of two."""
    return fused_forward(q, k, v) * 5 // 2


def onednn_linear(x: Any, weight: Any, *more: Any, **options: Any) -> int:
    """The product of a linear map by oneDNN."""
    return 2 * int(x.numel()) * int(weight.shape[0])


FORMULAS: dict[Any, Callable[..., int]] = {
    adapters.onednn_linear_operation(): onednn_linear,
    **flop_registry,
    torch.ops.aten.addmm_: flop_registry[torch.ops.aten.addmm],
    torch.ops.aten.baddbmm_: flop_registry[torch.ops.aten.baddbmm],
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: fused_forward,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: fused_backward,
}
"""The products of each operation: those of PyTorch's counter, and what it leaves out."""


def part_name(model: nn.Module, path: str) -> str:
    """The part of the module at ``path``: the child of ``model`` that it lies in, and the component
    there, such as ``encoder attention scaled_dot_product``.
    """
    names = path.split(".")
    modules = [model.get_submodule(".".join(names[: end + 1])) for end in range(len(names))]
    crossing = any(isinstance(module, CrossAttention) for module in modules)
    where = f"{names[0]} cross-attention" if crossing else names[0]
    for module in reversed(modules):
        if isinstance(module, CrossAttention):
            return f"{where} projections"
        if isinstance(module, Component):
            return f"{where} {module.entry.kind} {module.entry.name}"
    return where or MODEL


OUTPUT = "output and loss"
"""The part of the output projection and the loss."""


@dataclass(frozen=True)
class Sizes:
    """A batch: ``rows`` texts of ``length`` tokens, of source and target each, without padding."""

    rows: int
    length: int


def loss(model: Any, sizes: Sizes, counter: Counter) -> Tensor:
    """The loss of a training step."""
    ids = 1 + torch.arange(sizes.rows * sizes.length).view(sizes.rows, -1) % 3
    if isinstance(model, Transformer | LanguageModel):
        hidden = model.hidden(ids, ids) if isinstance(model, Transformer) else model.hidden(ids)
        with counter.running(OUTPUT):
            return cross_entropy(hidden.flatten(0, 1), model.output_weight, ids.flatten())[0]
    logits = model(ids)
    with counter.running(OUTPUT):
        labels = (ids if logits.ndim == 3 else ids[:, 0]) % logits.shape[-1]  # of tokens, or texts
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def count(build: Callable[[], nn.Module], sizes: Sizes) -> dict[str, Cost]:
    """The cost of a forward pass in training mode by part, and that of the backward pass.

    Nothing is computed: the tensors have shapes and no data. Where a part looks at the data in
    order to know what to do, everything is computed.
    """
    try:
        with adapters.shapes_alone():
            return count_in(build(), sizes)
    except adapters.shapes_depend_on_data():
        return count_in(build(), sizes)


def count_in(model: nn.Module, sizes: Sizes) -> dict[str, Cost]:
    """The cost of a step of ``model`` by part."""
    counter = Counter(model.train())
    with counter.counting():
        with counter.running(MODEL):
            total = loss(model, sizes, counter)
        total.backward()
    return dict(counter.costs)


@dataclass(frozen=True)
class Growth:
    """``constant + linear L + quadratic L^2``: the products of a text of ``L`` tokens."""

    constant: float
    linear: float
    quadratic: float


def growth(build: Callable[[], nn.Module], longest: int) -> dict[str, Growth]:
    """How the products of each part grow with the length, from three lengths up to ``longest``."""
    lengths = [longest // 4, longest // 2, longest]
    found = [count(build, Sizes(1, length)) for length in lengths]
    fits = {
        part: np.polyfit(lengths, [costs[part].products for costs in found], 2)
        for part in found[-1]
    }
    return {part: Growth(*(float(one) for one in reversed(fit))) for part, fit in fits.items()}
