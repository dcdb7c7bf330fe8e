"""Adam with L2 regularisation."""

from __future__ import annotations

import torch

from tfzoo.base.registry import register
from tfzoo.learning.optimizers.adamw import AdamW


@register("optimizer", "adam", paper="arXiv:1412.6980, algorithm 1")
class Adam(AdamW):
    """Adam with L2 regularisation: ``p - lr m / (sqrt(v) + eps)``, with the bias-corrected moving
    averages ``m`` and ``v`` of the gradient ``g + weight_decay p`` and of its square.

    ``torch.optim.Adam``, fused: a step takes one kernel, and does not wait for the device. The
    moving averages have the decay rates ``optim.betas``.

    >>> from torch import nn
    >>> optimizer = Adam((0.9, 0.98), 1e-9).configure(nn.Linear(2, 3), lr=1e-3, weight_decay=0.1)
    >>> [group["weight_decay"] for group in optimizer.param_groups]
    [0.1, 0.0]
    """

    make = torch.optim.Adam
