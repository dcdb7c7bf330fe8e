"""Where a number stopped being finite: found by running the same batches again and looking at every
module.
"""

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
    model: nn.Module, losses: Sequence[Callable[[], Tensor]], processes: int = 1
) -> str:
    """What was the first not to be finite, in the order of the computation: the output of a module,
    the loss, or a gradient.

    ``losses`` compute the loss of a micro-batch each. All processes call it and get the same
    answer: that of the first process that found something. Empty where all is finite.
    """
    found = ""
    for (
        loss
    ) in losses:  # all of them, to the end: processes that share statistics have to keep step
        found = look(model, loss) or found
    if processes > 1:
        answers: list[Any] = [None] * processes
        distributed.all_gather_object(answers, found)
        found = next(
            (f"{answer} (process {rank})" for rank, answer in enumerate(answers) if answer), ""
        )
    return found


def look(model: nn.Module, loss: Callable[[], Tensor]) -> str:
    """The same, of one micro-batch of this process."""
    outputs: Outputs = []
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            handle = module.register_forward_hook(
                partial(note, outputs, f"model.{name}" if name else "the model")
            )
            hooks.callback(handle.remove)
        result = loss()
    # Gradients at outputs, not at parameters: a strategy's own hooks on these are left alone.
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


def note(outputs: Outputs, name: str, module: nn.Module, given: Any, output: Any) -> None:
    """A forward hook that keeps what a module gave; an inner module comes before the one around it."""
    for one in output if isinstance(output, tuple) else (output,):
        if isinstance(one, Tensor) and one.is_floating_point():
            outputs.append((name, one))
