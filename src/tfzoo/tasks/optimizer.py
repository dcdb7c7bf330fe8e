"""The interface of an optimiser, and the parameters that weight decay applies to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import nn


class Optimizer(Protocol):
    """The options of an optimiser, which make a ``torch.optim.Optimizer`` for a module.

    A step must leave a parameter without gradient, and its state, unchanged; or the optimiser is
    ``fused``. A step whose gradients are not finite is skipped in this way.
    """

    def configure(
        self, module: nn.Module, lr: float, weight_decay: float
    ) -> torch.optim.Optimizer: ...


def decay_groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups of those that are trained: weight decay for parameters of two or more
    dimensions, none for biases and the weights of norms.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
