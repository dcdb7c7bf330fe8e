"""A residual connection's sum, and the norm of it."""

from __future__ import annotations

from torch import Tensor, nn

from tfzoo.base import kernels
from tfzoo.base.adapters import has_hooks

LARGE = 2**22
"""Elements from which one kernel is used: assumed, not measured. With fewer, a step waits for the
host, which starts a kernel in Triton more slowly than PyTorch's own.
"""


def sum_and_norm(
    norm: nn.Module, x: Tensor, branch: Tensor | None, valid: Tensor | None
) -> tuple[Tensor, Tensor]:
    """``x + branch``, or ``x`` where there is no branch, and the norm of it: ``(b n d)`` each.

    On CUDA, one kernel computes both, if the norm's class has one (``sum_and_norm``) and the norm
    is that class as it is: no subclass, without hooks and with the class's own ``forward``.
    """
    if fused_applies(norm, x, branch):
        return norm.sum_and_norm(x, branch)  # type: ignore[no-any-return,operator]  # a method
    total = x if branch is None else x + branch
    return total, norm(total, valid)


def fused_applies(norm: nn.Module, x: Tensor, branch: Tensor | None) -> bool:
    """Whether to use the norm's kernel."""
    return (
        x.numel() >= LARGE  # first: it is all that a step of decoding asks
        and kernels.triton_applies(x, *norm.parameters(recurse=False))
        and "sum_and_norm" in vars(type(norm))
        and "forward" not in vars(norm)
        and not has_hooks(norm)
        and (branch is None or branch.shape == x.shape)
    )
