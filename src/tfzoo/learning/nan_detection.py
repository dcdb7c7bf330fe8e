"""Finds the first NaN or infinity of a forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, distributed, nn

Outputs = list[tuple[str, Tensor]]


def first_non_finite(
    model: nn.Module, losses: Sequence[Callable[[], Tensor]], world_size: int = 1
) -> str:
    """Describe the first value that is not finite, in the order of computation: the output of a
    module, the loss, or the gradient at the output of a module. ``""`` if all are finite.

    Each of ``losses`` computes the loss of one micro-batch again. Every process must call it. All
    get the same result, that of the lowest rank that found a value.
    """
    found = ""
    for loss in losses:  # all of them: a forward pass may contain collectives (batch norm)
        first = first_in_batch(model, loss)
        found = found or first
    if world_size > 1:
        found_by_rank: list[Any] = [None] * world_size
        distributed.all_gather_object(found_by_rank, found)
        found = next(
            (f"{answer} (process {rank})" for rank, answer in enumerate(found_by_rank) if answer),
            "",
        )
    return found


def first_in_batch(model: nn.Module, loss: Callable[[], Tensor]) -> str:
    """:func:`first_non_finite` for one micro-batch of this process."""
    outputs: Outputs = []
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            handle = module.register_forward_hook(
                partial(keep_output, outputs, f"model.{name}" if name else "the model")
            )
            hooks.callback(handle.remove)
        result = loss()
    # Gradients at outputs, since gradients of parameters would run the hooks of DDP or FSDP.
    tracked = [(name, output) for name, output in outputs if output.requires_grad]
    gradients = (
        torch.autograd.grad(result, [output for _, output in tracked], allow_unused=True)
        if result.requires_grad
        else ()
    )
    backward = [
        (name, grad)
        for (name, _), grad in zip(tracked, gradients, strict=False)
        if grad is not None
    ]
    order = chain(
        ((f"the output of {name}", output) for name, output in outputs),
        [("the loss", result)],
        ((f"the gradient at the output of {name}", grad) for name, grad in reversed(backward)),
    )
    return next((name for name, value in order if not bool(value.isfinite().all())), "")


def keep_output(outputs: Outputs, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
    """Forward hook that stores a module's output. Submodules come before their parent."""
    for one in output if isinstance(output, tuple) else (output,):
        if isinstance(one, Tensor) and one.is_floating_point():
            outputs.append((name, one))
