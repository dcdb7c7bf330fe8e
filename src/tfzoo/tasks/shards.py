"""Sharded parameters while a set is scored: whole on every process, so that no process waits for another's batches."""

from __future__ import annotations

from typing import Any

from torch import nn


def gather(model: nn.Module) -> None:
    """Make the parameters of sharded modules (``fully_shard``) whole until :func:`release`. All processes call it.

    A forward of sharded modules is a collective: processes would have to score equally many batches and decode equally many tokens.
    """
    for module in sharded(model):
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()


def release(model: nn.Module) -> None:
    """Shard again what :func:`gather` made whole; the outermost stay whole from forward to backward, as ``fully_shard`` leaves them."""
    modules = sharded(model)
    inner = {id(one) for module in modules for one in sharded(module) if one is not module}
    for module in modules:
        module.reshard()
        module.set_reshard_after_forward(id(module) in inner, recurse=False)


def sharded(model: nn.Module) -> list[Any]:
    """The modules that ``fully_shard`` was called on; there are none where torch's sharding was never imported."""
    return [module for module in model.modules() if hasattr(module, "unshard") and hasattr(module, "set_reshard_after_forward")]
