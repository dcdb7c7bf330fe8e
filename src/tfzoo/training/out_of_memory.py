"""Out of memory: the batch at which it happened, and the option to lower."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L
import torch

WORDS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "bad_alloc",
    "Cannot allocate memory",
)
"""Words in errors of torch and of the system whose class does not say it."""


class OutOfMemoryContext(L.Callback):
    """Remembers the current batch; after an exception, ``shape`` holds its size."""

    def __init__(self) -> None:
        self.shape = ""

    def on_train_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.batch = batch

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self.batch = None  # free its memory before the next batch

    on_validation_batch_start = on_train_batch_start
    on_validation_batch_end = on_train_batch_end

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self.shape = batch_shape(getattr(self, "batch", None))
        self.batch = None


def batch_shape(batch: Any) -> str:
    """The sizes of a batch's tensors: ``source 32 x 61, target 32 x 70``; ``""`` if it has none."""
    tensors = {
        name: value
        for name, value in getattr(batch, "__dict__", {}).items()
        if isinstance(value, torch.Tensor) and value.dim() > 1
    }
    return ", ".join(
        f"{name} {' x '.join(map(str, value.shape))}" for name, value in tensors.items()
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error or one of its causes says that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, RuntimeError | OSError) and any(words in str(error) for words in WORDS):
        return True
    return error.__cause__ is not None and is_out_of_memory(error.__cause__)


def advice(shape: str, max_tokens: int) -> str:
    """One line that names the batch and half of ``max_tokens`` as the option to try."""
    batch = (
        f"at a batch of {shape} tokens"
        if shape
        else "before the first batch: the model alone is too large (model.dim, model.layers)"
    )
    return (
        f"out of memory {batch}. Lower data.max_tokens, which is {max_tokens}: "
        f"--data.max_tokens {max(1, max_tokens // 2)}"
    )
