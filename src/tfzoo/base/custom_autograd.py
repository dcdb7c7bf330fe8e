"""When a hand-written autograd function may run, and its second derivative.

A hand-written function takes fewer passes over memory than autograd on PyTorch's own operations. It
needs plain tensors, and its backward is no formula that could be differentiated again. For
everything else there is the formula itself.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tfzoo.base import adapters


def custom_functions_apply(*inputs: Tensor) -> bool:
    """Whether hand-written functions can take these inputs.

    Not while a graph is traced (``torch.compile``, ``torch.export``), and not under ``torch.func``
    or forward-mode differentiation.
    """
    return (
        not torch.compiler.is_compiling()
        and not adapters.transforms_active()
        and not (
            adapters.forward_mode()
            and any(forward_ad.unpack_dual(x).tangent is not None for x in inputs)
        )
    )


def differentiable_backward(
    formula: Callable[..., Tensor], inputs: tuple[Tensor | None, ...], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of ``formula(*inputs)``, which can be differentiated again; None for an input
    that needs none, or that is None.

    For the backward of a hand-written function under ``create_graph=True``, where
    ``torch.is_grad_enabled()`` is True.
    """
    # Views, so that no input counts for another one.
    views = [None if x is None else x.view_as(x) for x in inputs]
    wanted = [x for x in views if x is not None and x.requires_grad]
    found = iter(torch.autograd.grad(formula(*views), wanted, grad, create_graph=True))
    return tuple(next(found) if x is not None and x.requires_grad else None for x in views)
