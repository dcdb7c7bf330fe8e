"""Adam with decoupled weight decay."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from tfzoo.base.registry import register
from tfzoo.learning.optim import decay_groups


@register("optimizer", "adamw", paper="arXiv:1711.05101, algorithm 2")
class AdamW:
    """Adam with decoupled weight decay: ``p - lr (m / (sqrt(v) + eps) + weight_decay p)``, with the
    bias-corrected moving averages ``m`` and ``v`` of the gradient and of its square.

    ``torch.optim.AdamW``, fused: a step takes one kernel, and does not wait for the device. The
    moving averages have the decay rates ``optim.betas``.

    >>> optimizer = AdamW((0.9, 0.98), 1e-9).configure(nn.Linear(2, 3), lr=1e-3, weight_decay=0.1)
    >>> [group["weight_decay"] for group in optimizer.param_groups]
    [0.1, 0.0]
    """

    make: ClassVar[type[torch.optim.Adam]] = torch.optim.AdamW

    def __init__(self, betas: tuple[float, float], eps: float) -> None:
        self.betas, self.eps = betas, eps

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.Adam:
        """The optimiser of a module's trained parameters."""
        groups = decay_groups(module.parameters(), weight_decay)
        return self.make(groups, lr=lr, betas=self.betas, eps=self.eps, fused=True)
