"""Adam, with weight decay as a penalty."""

from __future__ import annotations

import torch
from torch import nn

from tfzoo.registry import register
from tfzoo.tasks.optimizer import decay_groups


@register("optimizer", "adam", paper="arXiv:1412.6980, algorithm 1")
class Adam:
    """Steps by the mean gradient over its root mean square: ``p - lr m / (sqrt(v) + eps)``, with
    the bias-corrected means ``m``, ``v`` of the gradient and its square.

    ``torch.optim.Adam``, fused: a step takes one kernel, and does not wait for the device. The
    means have the decay rates ``optim.betas``. ``optim.weight_decay`` is added to the gradient:
    ``g + weight_decay p``, a penalty on the squared weights.

    >>> optimizer = Adam((0.9, 0.98), 1e-9).configure(nn.Linear(2, 3), lr=1e-3, weight_decay=0.1)
    >>> [group["weight_decay"] for group in optimizer.param_groups]
    [0.1, 0.0]
    """

    def __init__(self, betas: tuple[float, float], eps: float) -> None:
        self.betas, self.eps = betas, eps

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.Adam:
        """The optimiser of a module's trained parameters."""
        groups = decay_groups(module.parameters(), weight_decay)
        return torch.optim.Adam(groups, lr=lr, betas=self.betas, eps=self.eps, fused=True)
