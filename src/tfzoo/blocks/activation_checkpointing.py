"""Activation checkpointing: the backward computes a layer again instead of keeping its activations
(Chen et al. 2016, arXiv:1604.06174).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVarTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Given = TypeVarTuple("Given")


def checkpoint_activations(
    run: Callable[[*Given], Tensor], module: nn.Module, *given: *Given
) -> Tensor:
    """``run(*given)``, of which only the inputs are kept for the backward.

    The second computation leaves the buffers of ``module`` alone, so that running statistics move
    once.
    """
    output: Tensor = checkpoint(
        run,
        *given,
        use_reentrant=False,
        context_fn=lambda: (nullcontext(), buffers_restored(module)),
    )
    return output


@contextmanager
def buffers_restored(module: nn.Module) -> Iterator[None]:
    """On exit, buffers such as running statistics get back the values that they had on entry."""
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
