"""Out of memory: which batch it was, and what to set lower."""

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
"""What torch and the system say of it, where the class of the error does not."""


class OutOfMemoryContext(L.Callback):
    """Knows the batch that is being worked on; ``shape`` says how large it is, also after a step
    that failed.
    """

    def __init__(self) -> None:
        self.shape = ""

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self.batch = batch

    def on_validation_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.batch = batch

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self.batch = None  # its memory is the next one's

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.batch = None

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self.shape = shape(getattr(self, "batch", None))
        self.batch = None


def shape(batch: Any) -> str:
    """``source 32 x 61, target 32 x 70`` of a batch; ``""`` of what has no tensors."""
    tensors = {
        name: value
        for name, value in getattr(batch, "__dict__", {}).items()
        if isinstance(value, torch.Tensor) and value.dim() > 1
    }
    return ", ".join(
        f"{name} {' x '.join(map(str, value.shape))}" for name, value in tensors.items()
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or the one that it came from, says that memory was not enough."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, RuntimeError | OSError) and any(words in str(error) for words in WORDS):
        return True
    return error.__cause__ is not None and is_out_of_memory(error.__cause__)


def advice(shape: str, max_tokens: int) -> str:
    """What to say of it, with the option to set lower and half of what it is."""
    batch = (
        f"at a batch of {shape} tokens"
        if shape
        else "before the first batch: the model alone is too large (model.dim, model.layers)"
    )
    return (
        f"out of memory {batch}. Lower data.max_tokens, which is {max_tokens}: "
        f"--data.max_tokens {max(1, max_tokens // 2)}"
    )
