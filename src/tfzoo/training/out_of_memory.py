"""Out of memory: the option to lower."""

from __future__ import annotations

import torch

WORDS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "bad_alloc",
    "Cannot allocate memory",
)
"""Words in errors of torch and of the system whose class does not say it."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error or one of its causes says that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, RuntimeError | OSError) and any(words in str(error) for words in WORDS):
        return True
    return error.__cause__ is not None and is_out_of_memory(error.__cause__)


def advice(max_tokens: int) -> str:
    """One line that names half of ``max_tokens`` as the option to try."""
    return (
        f"out of memory. Lower data.max_tokens, which is {max_tokens}: --data.max_tokens "
        f"{max(1, max_tokens // 2)}"
    )
