"""A training that runs out of memory says what to set lower to what."""

import pytest
import torch

from tfzoo.training.train import is_out_of_memory

pytest.importorskip("resource", reason="limits of a process are Unix's")


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: "
                "you tried to allocate"
            ),
            True,
        ),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_an_error_is_known_by_its_class_or_its_words(error, is_one):
    assert is_out_of_memory(error) == is_one
    within = RuntimeError("in a worker")
    within.__cause__ = error
    assert is_out_of_memory(within) == is_one
