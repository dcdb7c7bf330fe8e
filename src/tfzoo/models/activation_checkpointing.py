"""Activation checkpointing: the backward pass computes activations again instead of storing them
(Chen et al. 2016, arXiv:1604.06174).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVarTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tfzoo.contracts import FeedForward

Inputs = TypeVarTuple("Inputs")


def checkpoint_activations(
    run: Callable[[*Inputs], Tensor], module: nn.Module, *inputs: *Inputs
) -> Tensor:
    """Return ``run(*inputs)``, and store only the inputs for the backward pass.

    The second forward pass leaves no trace in ``module``: running statistics are updated only once,
    and its auxiliary losses are the first pass's.
    """
    output: Tensor = checkpoint(
        run,
        *inputs,
        use_reentrant=False,
        context_fn=lambda: (nullcontext(), state_restored(module)),
    )
    return output


@contextmanager
def state_restored(module: nn.Module) -> Iterator[None]:
    """On exit, restore the values that the module's buffers and its auxiliary losses had on
    entry.
    """
    losses = [
        (part, part.auxiliary_loss) for part in module.modules() if isinstance(part, FeedForward)
    ]
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for part, loss in losses:
            part.auxiliary_loss = loss
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
