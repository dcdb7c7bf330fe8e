"""When hand-written functions, which take fewer passes over memory, and FlexAttention may compute
in place of PyTorch's operations.
"""

import os
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tfzoo.base import adapters

VARIABLE = "TFZOO_KERNELS"
"""The environment variable that is set to 0 to compute without FlexAttention."""


def custom_functions_apply() -> bool:
    """Whether hand-written functions may compute: not while a graph is traced (``torch.compile``,
    ``torch.export``), under ``torch.func`` or forward-mode differentiation.
    """
    return not (torch.compiler.is_compiling() or adapters.transforms_active())


def flex_attention_applies(*inputs: Tensor) -> bool:
    """Whether FlexAttention may compute with these tensors: on CUDA, and of no subclass, which may
    hold its data otherwise, or none, as in an estimate of memory.
    """
    plain = all(x.is_cuda and type(x) in (Tensor, nn.Parameter) for x in inputs)
    return plain and os.environ.get(VARIABLE) != "0"


def differentiable_backward(
    formula: Callable[..., Tensor], inputs: tuple[Tensor | None, ...], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of ``formula(*inputs)``, which can be differentiated again, for the backward of
    a hand-written function where ``torch.is_grad_enabled()``; None for an input that needs none.
    """
    # Views, so that no input counts for another one.
    views = [None if x is None else x.view_as(x) for x in inputs]
    wanted = [x for x in views if x is not None and x.requires_grad]
    found = iter(torch.autograd.grad(formula(*views), wanted, grad, create_graph=True))
    return tuple(next(found) if x is not None and x.requires_grad else None for x in views)
