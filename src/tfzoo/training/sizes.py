"""Whether a training fits the machine: what is exact is refused, what is estimated is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tfzoo.base import adapters, memory
from tfzoo.base.terminal import notify
from tfzoo.base.values import readable
from tfzoo.config.config import Config
from tfzoo.errors import BadRecipe
from tfzoo.training.out_of_memory import batch_shape
from tfzoo.training.step_peak import OVERHEAD, step_peak

PROCESS = 200_000_000
"""The bytes that a process has for itself when it has imported PyTorch and Lightning."""
PER_CORE = 8
"""The most processes of a training on the CPU for each of its cores."""
MOST_STATE = 8
"""A training whose parameters fit so many times is not counted: no optimiser keeps as much."""
SECONDS = 0.5
"""The most time in which the memory of a step is estimated; beyond, nothing is said of it."""
MIXED = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def check_sizes(config: Config, tokenizer: Any = None) -> None:
    """Check that parameters, gradients and the optimiser's state of a training fit: on the GPU that
    it uses, or in the memory of this machine once for each process. A strategy that shards them is
    not counted. This is done before data is read, and with the tokenizer's vocabulary when it is
    known.

    Raises:
        BadRecipe: naming the option that decides, what it needs and what there is.
    """
    on_gpu, copies, narrow = demands(config.recipe["trainer"])
    check_processes(copies)
    options, option = config.recipe["model"], ""
    supplied = config.task.model_arguments(tokenizer, data=config.recipe["data"])
    if tokenizer is not None:
        most = max((size for size in supplied.values() if size), default=0)
        option = f"data.tokenizer.vocab_size={most}"
    make = partial(config.task.Model, **supplied)
    model = memory.check_model(make, options, memory.here(), option=option)  # it is built here
    parameters = memory.size(model)
    place = memory.gpu() if on_gpu else memory.here()
    if not copies or MOST_STATE * copies * parameters <= place.bytes:
        return
    try:
        whole = training_size(partial(make, **options), optimizer_of(config))
    except Exception:  # of any kind, such as an optimiser that looks at data: a lower bound
        whole = 2 * parameters
    need = whole * copies * narrow
    if need > place.bytes:
        what = "parameters, gradients and the optimiser's state take"
        if need <= place.bytes * copies:
            option, what = f"trainer.devices={copies}", f"that many times {what}"
        memory.refuse(option or memory.deciding(make, options), what, need, place)


def demands(trainer: Mapping[str, Any]) -> tuple[bool, int, float]:
    """Whether a training uses GPUs; how often one of them, or this machine, holds the model (0: not
    known); and the share of bytes that the precision leaves.
    """
    accelerator, devices = trainer.get("accelerator", "auto"), trainer.get("devices", 1)
    on_gpu = accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    strategy = trainer.get("strategy", "auto")
    known = (on_gpu or accelerator in ("auto", "cpu")) and (
        isinstance(strategy, str) and strategy.partition("_")[0] in ("auto", "ddp")
    )
    several = int(devices) if str(devices).isdecimal() and not on_gpu else 1
    half = str(trainer.get("precision")) in ("16-true", "bf16-true")
    return on_gpu, several if known else 0, 0.5 if half else 1.0


def check_processes(count: int) -> None:
    """Check that a training can start so many processes on the CPU.

    Raises:
        BadRecipe: there are too few cores, or too little memory.
    """
    cores = os.cpu_count() or 1
    if count > PER_CORE * cores:
        raise BadRecipe(
            f"trainer.devices={count} on the CPU are as many processes, and this machine has "
            f"{cores} cores; the most is {PER_CORE * cores}, {PER_CORE} a core"
        )
    if count * PROCESS > memory.machine():
        memory.refuse(
            f"trainer.devices={count}", "its processes take", count * PROCESS, memory.here()
        )


def training_size(make: Callable[[], nn.Module], configure: Callable[[nn.Module], Any]) -> int:
    """The bytes of parameters, tables, gradients and what the optimiser keeps from step to step.
    Nothing is allocated.
    """
    with adapters.shapes_alone():
        model = make()
        optimizer: torch.optim.Optimizer = configure(model)
        trained = [tensor for tensor in model.parameters() if tensor.requires_grad]
        for parameter in trained:
            parameter.grad = torch.empty_like(parameter)
        gradients = sum(tensor.numel() * tensor.element_size() for tensor in trained)
        optimizer.step()
        kept = [value for state in optimizer.state.values() for value in state.values()]
        tensors = [tensor for tensor in kept if isinstance(tensor, torch.Tensor)]
        return (
            memory.size(model)
            + gradients
            + sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        )


def warn_of_longest_batch(config: Config, tokenizer: Any, data: Any) -> None:
    """Say if a step on the longest batch probably needs more memory than is free now. That is an
    estimate, so that nothing is refused.
    """
    trainer = config.recipe["trainer"]
    on_gpu, copies, narrow = demands(trainer)
    if not copies:
        return
    place = memory.free_gpu() if on_gpu else memory.Place(memory.free())
    try:
        batch = data.sets["train"][longest_rows(data)]
        step = OVERHEAD * narrow * copies * step_of(config, tokenizer, batch, on_gpu)
        need = step + copies * narrow * kept_between_steps(config, tokenizer, place.bytes - step)
    except Exception:  # of any kind, such as a model that looks at data: nothing is known then
        return
    if need > place.bytes:
        option = "max_tokens" if len(batch) > 1 else "max_length"
        notify(
            f"warning: a step on the longest batch ({batch_shape(batch)} tokens) takes about "
            f"{readable(need)} of memory with the model and its optimiser, and {place.name} has "
            f"{readable(place.bytes)} free: lower data.{option}={getattr(data, option)}"
        )


def longest_rows(data: Any) -> Any:
    """The rows of the longest batch of training, of as many as ``max_tokens`` allows."""
    source, target = data.sets["train"].lengths()
    longer = np.maximum(source, target) + 1  # EOS
    rows = max(1, min(len(longer), data.max_tokens // int(longer.max())))
    return np.argsort(-longer, kind="stable")[:rows]


def step_of(config: Config, tokenizer: Any, batch: Any, on_gpu: bool) -> int:
    """The bytes that a training step holds at its peak, gradients included, beside the model."""
    device = torch.device("cuda" if on_gpu else "cpu")
    mixed = MIXED.get(str(config.recipe["trainer"].get("precision")))

    def make() -> Any:
        task = config.task.build(config.recipe, tokenizer)
        task.choose_trained()
        replace(task.compute, compile=False).apply(task.model)
        return task

    def loss(task: Any) -> Tensor:
        with nullcontext() if mixed is None else torch.autocast(device.type, mixed):
            output = task.forward_batch(batch)
        results: Any = output if isinstance(output, tuple) else (output,)
        total: Tensor = next(one for one in results if one.requires_grad).sum()
        return total

    return step_peak(make, loss, device, SECONDS)


def kept_between_steps(config: Config, tokenizer: Any, left: float) -> int:
    """The bytes of parameters, tables and the optimiser's state; an upper bound if ``left`` is more
    than that.
    """
    make = partial(config.task.Model, **config.task.model_arguments(tokenizer))
    model = memory.build(make, config.recipe["model"], memory.ADDRESSES)
    parameters = memory.size(model)
    if (bound := MOST_STATE * parameters) <= left:
        return bound
    whole = training_size(partial(make, **config.recipe["model"]), optimizer_of(config))
    return whole - sum(one.numel() * one.element_size() for one in model.parameters())


def optimizer_of(config: Config) -> Any:
    """Makes the optimiser of a model, after its adapter."""
    made = {key: config.task.settings()[key](**config.recipe[key]) for key in ("optim", "adapter")}

    def configure(model: Any) -> Any:
        made["adapter"].apply(model, 0)
        return made["optim"].optimizer_and_schedule(model, 1)["optimizer"]

    return configure
