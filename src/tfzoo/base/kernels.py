"""Whether kernels for GPUs are chosen where they apply."""

from __future__ import annotations

import os

from torch import Tensor

from tfzoo.errors import BadOption

VARIABLE = "TFZOO_KERNELS"
"""The environment variable that is set to 0 to compute by PyTorch's own operations alone."""


def apply_to(x: Tensor) -> bool:
    """Whether FlexAttention and kernels in Triton may compute with this tensor: on CUDA.

    Raises:
        BadOption: ``TFZOO_KERNELS`` is neither 0 nor 1.
    """
    if not x.is_cuda:
        return False
    given = os.environ.get(VARIABLE, "1")
    if given not in ("0", "1"):
        raise BadOption(f"{VARIABLE}={given}: set it to 0 to leave kernels for GPUs alone, or to 1")
    return given == "1"
