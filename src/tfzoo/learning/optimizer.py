"""The interface of an optimiser, and the parameters that weight decay applies to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import nn


class Optimizer(Protocol):
    """The options of an optimiser; :meth:`configure` makes the ``torch.optim.Optimizer``.

    Steps with gradients that are not finite must be skipped, so the optimiser must either be
    ``fused`` (PyTorch's fused kernels skip a step by ``found_inf``), or leave a parameter and its
    state unchanged if the parameter's gradient is None. See
    :func:`tfzoo.learning.gradient_normalizer.skip_unless`.
    """

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        """Return an optimiser of the module's parameters that require a gradient."""
        ...


def decay_groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups of the parameters that require a gradient: weight decay for those of two or
    more dimensions, none for others, such as biases and the weights of norms.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
