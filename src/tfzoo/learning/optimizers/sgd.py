"""Stochastic gradient descent."""

from __future__ import annotations

import torch
from torch import nn

from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.errors import BadOption
from tfzoo.learning.optim import decay_groups


@register("optimizer", "sgd")
class SGD:
    """Gradient descent with momentum: ``b = momentum b + g``, ``p - lr b``.

    ``torch.optim.SGD``. ``optim.weight_decay`` is added to the gradient: ``g + weight_decay p``.
    Not fused: the fused kernel of PyTorch leaves its momentum uninitialised if the first step is
    skipped.

    Options:
        momentum: decay rate of the sum of gradients, in ``[0, 1)``.
        nesterov: look ahead: ``p - lr (g + momentum b)`` (Sutskever et al. 2013).

    Raises:
        BadOption: a momentum out of range, or ``nesterov`` without momentum.

    >>> SGD(momentum=0.9).configure(nn.Linear(2, 3), lr=0.1, weight_decay=0.0).defaults["momentum"]
    0.9
    """

    def __init__(self, *, momentum: float = 0.0, nesterov: bool = False) -> None:
        check_range("optimizer 'sgd': momentum", momentum, ge=0, lt=1)
        if nesterov and not momentum:
            raise BadOption("optimizer 'sgd': nesterov needs a momentum over 0")
        self.momentum, self.nesterov = momentum, nesterov

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.SGD:
        """The optimiser of a module's trained parameters."""
        groups = decay_groups(module.parameters(), weight_decay)
        return torch.optim.SGD(groups, lr=lr, momentum=self.momentum, nesterov=self.nesterov)
