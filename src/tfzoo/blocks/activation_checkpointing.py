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

Inputs = TypeVarTuple("Inputs")


def checkpoint_activations(
    run: Callable[[*Inputs], Tensor], module: nn.Module, *inputs: *Inputs
) -> Tensor:
    """Return ``run(*inputs)``, and store only the inputs for the backward pass.

    The buffers of ``module`` are restored after the second computation, so that running statistics
    are updated once.
    """
    output: Tensor = checkpoint(
        run,
        *inputs,
        use_reentrant=False,
        context_fn=lambda: (nullcontext(), buffers_restored(module)),
    )
    return output


@contextmanager
def buffers_restored(module: nn.Module) -> Iterator[None]:
    """On exit, restore the values that the module's buffers had on entry."""
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
