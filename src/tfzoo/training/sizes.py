"""Whether a training fits the machine: what is exact is refused, what is estimated is said."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tfzoo.base.terminal import notify
from tfzoo.base.values import readable
from tfzoo.config.resolve import Config
from tfzoo.runs import memory
from tfzoo.training.out_of_memory import shape
from tfzoo.training.step_peak import KEPT, step_peak

SECONDS = 0.5
"""The most time in which the memory of a step is estimated; beyond, nothing is said of it."""
MIXED = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def check_sizes(config: Config, tokenizer: Any = None) -> None:
    """Check that the model, its gradients and the optimiser's state fit: before data is read, and
    with the tokenizer's vocabulary when it is known.

    Raises:
        BadRecipe: naming the option that decides, what it needs and what there is.
    """
    recipe = config.recipe
    supplied = config.task.model_arguments(tokenizer, data=recipe["data"])
    make = partial(config.task.Model, **supplied)
    model, option = config.model, ""
    if tokenizer is not None:
        model = memory.build(make, recipe["model"], memory.ADDRESSES)
        most = max((size for size in supplied.values() if size), default=0)
        option = f"data.tokenizer.vocab_size={most}"
    memory.check_training(
        model, make, recipe["model"], recipe["trainer"], optimizer_of(config), option
    )


def warn_of_longest_batch(config: Config, tokenizer: Any, data: Any) -> None:
    """Say if a step on the longest batch probably needs more memory than is free now. That is an
    estimate, so that nothing is refused.
    """
    trainer = config.recipe["trainer"]
    on_gpu, copies, narrow = memory.demands(trainer)
    if not copies:
        return
    place = memory.free_gpu() if on_gpu else memory.Place(memory.free())
    try:
        batch = data.sets["train"][longest_rows(data)]
        step = KEPT * narrow * copies * step_of(config, tokenizer, batch, on_gpu)
        need = step + copies * narrow * kept_between_steps(config, tokenizer, place.bytes - step)
    except Exception:  # of any kind, such as a model that looks at data: nothing is known then
        return
    if need > place.bytes:
        option = "max_tokens" if len(batch) > 1 else "max_length"
        notify(
            f"warning: a step on the longest batch ({shape(batch)} tokens) takes about "
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
            found = task.forward_batch(batch)
        results: Any = found if isinstance(found, tuple) else (found,)
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
    if (bound := memory.MOST_STATE * parameters) <= left:
        return bound
    whole = memory.training_size(partial(make, **config.recipe["model"]), optimizer_of(config))
    return whole - sum(one.numel() * one.element_size() for one in model.parameters())


def optimizer_of(config: Config) -> Any:
    """Makes the optimiser of a model, after its adapter."""
    made = {key: config.task.settings()[key](**config.recipe[key]) for key in ("optim", "adapter")}

    def configure(model: Any) -> Any:
        made["adapter"].apply(model, 0)
        return made["optim"].configure(model, 1)["optimizer"]

    return configure
