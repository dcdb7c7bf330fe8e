"""What a training step costs: FLOPs, activations, parameters, gradients, the optimiser's state and
the peak of memory; and whether a training fits the machine.

A step runs on PyTorch's ``FakeTensor``: from the shapes of tensors, so that nothing is computed and
hardly any memory is taken.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any

import lightning.pytorch as L
import torch
import torch.nn.functional as F
from lightning.pytorch.plugins.precision import Precision
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from tfzoo.base import adapters, memory
from tfzoo.base.values import readable
from tfzoo.config.config import Config
from tfzoo.contracts import Component
from tfzoo.errors import BadRecipe
from tfzoo.learning.cross_entropy import cross_entropy
from tfzoo.models.language_model import LanguageModel
from tfzoo.models.multihead import CrossAttention
from tfzoo.models.transformer import Transformer

OUTPUT = "output and loss"
"""The part of what lies in no other."""
MODEL, BACKWARD = "the model itself", "backward"
"""The parts of what is made before the forward pass, and after it."""
MOST_STATE = 8
"""No optimiser keeps so many times the parameters."""
CPU = torch.device("cpu")


# The cost of a step -------------------------------------------------------------------------------


@dataclass
class Cost:
    """Of a part of a model: the number of its parameters; FLOPs of the matrix products of its
    forward pass, of which a multiplication and an addition are two; and bytes of what it computes
    and the backward pass needs.
    """

    parameters: int = 0
    flops: int = 0
    activations: int = 0


@dataclass
class StepCost:
    """Of a training step of a model, which is without data.

    Args:
        parts: a cost by part, in the order of the model. A module belongs to the component that it
            lies in, and to the child of the model that this lies in. Layers are added up.
        backward: the FLOPs of the backward pass.
        parameters, gradients, optimizer_state: bytes; tables count as parameters.
        peak: the most bytes that the step holds at a moment, all of these included.
    """

    model: nn.Module
    parts: dict[str, Cost]
    backward: int
    parameters: int
    gradients: int
    optimizer_state: int
    peak: int

    @property
    def forward(self) -> Cost:
        """The sum over all parts."""
        numbers = zip(*map(astuple, self.parts.values()), strict=True)
        return Cost(*map(sum, numbers))

    @property
    def kept(self) -> int:
        """The bytes that a training holds in each step, whatever its batch."""
        return self.parameters + self.gradients + self.optimizer_state

    def __str__(self) -> str:
        return (
            f"{readable(self.peak)} at the peak: parameters {readable(self.parameters)}, gradients "
            f"{readable(self.gradients)}, optimizer state {readable(self.optimizer_state)}, "
            f"activations {readable(self.forward.activations)}"
        )


def step_cost(
    make: Callable[[], nn.Module],
    loss: Callable[[Any], Tensor] | None = None,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    *,
    device: torch.device = CPU,
) -> StepCost:
    """The cost of a training step on ``device`` of the model that ``make`` makes: without ``loss``
    there is no forward and no backward pass, without ``optimizer`` no step of it. PyTorch raises an
    error where a part looks at its data in order to know what to do.
    """
    counter, state = Counter(), 0
    with adapters.shapes_alone(), nullcontext() if device == CPU else device, counter:
        model = make().train()
        counter.watch(model)
        counter.peak = counter.total
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if optimizer is not None:
            made = optimizer(model)
            for parameter in trained:
                parameter.grad = torch.zeros_like(parameter)
            made.step()
            made.zero_grad()
            kept = [tensor for values in made.state.values() for tensor in values.values()]
            state = sum(tensor.nbytes for tensor in kept if isinstance(tensor, Tensor))
        counter.inside = [OUTPUT]
        total = None if loss is None else loss(model)
        parts = {
            name: Cost(counter.parameters.get(name, 0), counter.flops[name], counter.held[name])
            for name in dict.fromkeys([*counter.parameters, OUTPUT])
        }
        counter.inside = [BACKWARD]
        if total is not None:
            total.backward()
    return StepCost(
        model,
        parts,
        sum(counter.flops.values()) - sum(part.flops for part in parts.values()),
        memory.size(model),
        sum(parameter.nbytes for parameter in trained),
        state,
        counter.peak,
    )


class Counter(TorchDispatchMode):
    """Adds up the FLOPs of operations by part, and the bytes of the tensors that exist: ``total``
    at this moment, ``peak`` at most.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.inside = [MODEL]
        """The parts of the modules that are running, the innermost last."""
        self.parameters: dict[str, int] = {}
        self.flops: dict[str, int] = defaultdict(int)
        self.held: dict[str, int] = defaultdict(int)
        self.total = self.peak = 0
        self.storages: weakref.WeakSet[Any] = weakref.WeakSet()

    def watch(self, model: nn.Module) -> None:
        """Know which part of a model is running."""
        part_of = {name: part_name(model, name) for name, _ in model.named_modules()}
        self.parameters = dict.fromkeys(part_of.values(), 0)  # in the order of the model
        for name, parameter in model.named_parameters():  # a tied one comes once
            self.parameters[part_of[name.rpartition(".")[0]]] += parameter.numel()
        for name, module in model.named_modules():
            if part_of[name] != part_of[name.rpartition(".")[0]]:
                module.register_forward_pre_hook(partial(self.enter, part_of[name]))
                module.register_forward_hook(self.leave, always_call=True)

    def enter(self, part: str, *_: Any) -> None:
        self.inside.append(part)

    def leave(self, *_: Any) -> None:
        self.inside.pop()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation and count it. An error raised here can end the process: PyTorch also
        asks for sizes and devices from functions that may not throw.
        """
        out = ASSUMED.get(func, func)(*args, **(kwargs or {}))
        part = self.inside[-1]
        if formula := FORMULAS.get(func.overloadpacket):
            self.flops[part] += formula(*args, **(kwargs or {}), out_val=out)
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.untyped_storage() not in self.storages:
                self.hold(tensor.untyped_storage(), part)
        return out

    def hold(self, storage: torch.UntypedStorage, part: str) -> None:
        """Count the memory of a new tensor, which all its views share, as long as it exists."""
        self.storages.add(storage)
        self.change(storage.nbytes(), part)
        weakref.finalize(storage, self.change, -storage.nbytes(), part)

    def change(self, size: int, part: str) -> None:
        self.held[part] += size
        self.total += size
        self.peak = max(self.peak, self.total)


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
    return where or OUTPUT


def attention_forward(
    q: Any, k: Any, v: Any, *args: Any, out_val: Any = None, **kwargs: Any
) -> int:
    """The FLOPs of PyTorch's attention kernel for CPUs."""
    return int(sdpa_flop_count(q.shape, k.shape, v.shape))


def attention_backward(
    grad: Any, q: Any, k: Any, v: Any, *args: Any, out_val: Any = None, **kwargs: Any
) -> int:
    """It computes the scores again: five products in place of two."""
    return attention_forward(q, k, v) * 5 // 2


def onednn_linear(x: Any, weight: Any, *more: Any, **options: Any) -> int:
    """The FLOPs of a linear map by oneDNN."""
    return 2 * int(x.numel()) * int(weight.shape[0])


FORMULAS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    adapters.onednn_linear_operation(): onednn_linear,
    torch.ops.aten.addmm_: flop_registry[torch.ops.aten.addmm],
    torch.ops.aten.baddbmm_: flop_registry[torch.ops.aten.baddbmm],
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_forward,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
}
"""The FLOPs of each operation: those of PyTorch's ``FlopCounterMode``, and what it leaves out."""


def holds(tensor: Tensor) -> Any:
    """A condition on data holds; other numbers are not known."""
    scalar = torch.ops.aten._local_scalar_dense.default
    return True if tensor.dtype == torch.bool else scalar(tensor)


def evenly(tensor: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Each number comes as often."""
    bins = max(1, minlength)
    with adapters.without_modes():
        return torch.tensor([(tensor.numel() + index) // bins for index in range(bins)])


ASSUMED: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._local_scalar_dense.default: holds,
    torch.ops.aten.bincount.default: evenly,
}
"""What is assumed of data by operations that look at it."""


def example_loss(model: Any, rows: int, length: int) -> Tensor:
    """The loss of a batch of ``rows`` texts of ``length`` tokens, of source and target each,
    without padding.
    """
    ids = 1 + torch.arange(rows * length).view(rows, -1) % 3
    if isinstance(model, Transformer | LanguageModel):
        hidden = model.hidden(ids, ids) if isinstance(model, Transformer) else model.hidden(ids)
        return cross_entropy(hidden.flatten(0, 1), model.output_weight, ids.flatten())[0]
    logits = model(ids)
    labels = (ids if logits.ndim == 3 else ids[:, 0]) % logits.shape[-1]  # of tokens, or texts
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


# Of a recipe --------------------------------------------------------------------------------------


def cost_of(
    config: Config,
    sizes: Mapping[str, Any],
    trainer: L.Trainer | None,
    rows: int = 0,
    length: int = 0,
) -> StepCost | None:
    """The cost of a recipe's training step on ``rows`` texts of ``length`` tokens; of none, what it
    holds in each step. None where it is not known: a part must see its data to know what to do, or
    PEFT cannot add its adapter to tensors without data. ``sizes`` are the arguments of the model
    that follow from the tokenizer. Without a trainer, in fp32 on a CPU; anywhere but on a GPU a
    step takes what it takes on a CPU.
    """
    recipe, classes = config.recipe, config.task.settings()
    plugin = trainer.precision_plugin if trainer else Precision()
    device = trainer.strategy.root_device if trainer else CPU
    optim, compute, adapter = (
        classes[key](**(recipe[key] or {})) for key in ("optim", "compute", "adapter")
    )

    def make() -> nn.Module:
        model: nn.Module = config.task.Model(**sizes, **recipe["model"])
        adapter.apply(model, seed=0)
        optim.freeze_parameters(model)
        replace(compute, compile=False).apply(model)
        return plugin.convert_module(model)

    def loss(model: nn.Module) -> Tensor:
        with plugin.forward_context():
            return example_loss(model, rows, length)

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        made: torch.optim.Optimizer = optim.optimizer_and_schedule(model, 1)["optimizer"]
        return made

    try:
        device = device if device.type == "cuda" else CPU
        return step_cost(make, loss if rows else None, optimizer, device=device)
    except Exception:  # of any kind
        return None


def check_fits(config: Config, trainer: L.Trainer, tokenizer: Any = None) -> None:
    """Check that a training fits: the model into this machine; and parameters, gradients and the
    optimiser's state on the GPU that it uses, or in the memory of this machine once for each
    process; else a BadRecipe. A strategy that shards the model is not counted. Before data is read,
    the vocabulary counts as small.
    """
    sizes = config.task.model_arguments(tokenizer, config.recipe["data"])
    model = memory.check_model(partial(config.task.Model, **sizes), config.recipe["model"])
    copies, there, place = room(trainer)
    may_not_fit = MOST_STATE * copies * memory.size(model) > there
    cost = cost_of(config, sizes, trainer) if may_not_fit else None
    if cost and copies * cost.kept > there:
        what = f"trainer.devices={copies}: that many times" if cost.kept <= there else "model:"
        what += " parameters, gradients and the optimiser's state"
        raise BadRecipe(memory.too_large(what, cost.model, copies * cost.kept, there, place))


def room(trainer: L.Trainer) -> tuple[int, int, str]:
    """How often one GPU, or this machine, holds the model of a training (0: not known), the bytes
    that there are, and what a message calls the place.
    """
    known = isinstance(trainer.strategy, DDPStrategy | SingleDeviceStrategy)
    if (device := trainer.strategy.root_device).type == "cuda":
        return int(known), torch.cuda.mem_get_info(device)[1], "GPU"
    return trainer.num_devices * known, memory.machine(), "machine"
