"""Whether kernels for GPUs are chosen where they apply."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from tfzoo.base.custom_autograd import custom_functions_apply
from tfzoo.base.precision import compute_dtype

VARIABLE = "TFZOO_KERNELS"
"""The environment variable that is set to 0 to compute by PyTorch's own operations alone."""


def apply_to(*inputs: Tensor) -> bool:
    """Whether FlexAttention and kernels in Triton may compute with these tensors: on CUDA, and of
    no subclass, which may hold its data otherwise, or none, as in an estimate of memory.
    """
    plain = all(x.is_cuda and type(x) in (Tensor, nn.Parameter) for x in inputs)
    return plain and os.environ.get(VARIABLE) != "0"


def triton_applies(*inputs: Tensor) -> bool:
    """Whether kernels in Triton may compute with these tensors: on CUDA, where it is installed.
    None of them takes float64, tensors without elements or what hand-written functions may not.
    """
    return (
        not torch.compiler.is_compiling()
        and apply_to(*inputs)
        and min(x.numel() for x in inputs) > 0
        and compute_dtype(*inputs) != torch.float64
        and custom_functions_apply(*inputs)
        and has_triton()
    )


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None
