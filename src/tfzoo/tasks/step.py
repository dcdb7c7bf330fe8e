"""One step of the optimiser, over all its micro-batches and processes: a mean over all that they counted, taken by all or by none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from tfzoo.models.shard import whole


class Step:
    """Sums up the micro-batches of one step, then turns the gradients of their summed losses into those of their mean."""

    def __init__(self) -> None:
        self.loss = self.norm = 0.0
        """Of the last step: its mean loss, and the norm of its gradients."""
        self.begin()

    def begin(self) -> None:
        """Nothing is counted yet."""
        self.batches: list[Any] = []
        self.total: Tensor | None = None
        self.count: Tensor | float = 0.0

    def add(self, loss: Tensor, count: Tensor | float) -> None:
        """Count a micro-batch: its summed loss, and what that is to be divided by."""
        loss = loss.detach().float()
        self.total = loss if self.total is None else self.total + loss
        self.count = self.count + count

    def finish(self, parameters: Sequence[nn.Parameter], processes: int, micro_batches: int) -> bool:
        """Scale the gradients to those of the mean; False where those of any process, or its loss, are not finite. All processes call it.

        Strategies average gradients over ``processes``, and Lightning divides a loss by ``micro_batches``: both are undone. Where
        nothing was counted the losses are means already, and gradients stay as they are. Costs one all-reduce of three numbers, and
        waits for the device once.
        """
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = whole(nn.utils.get_total_norm(gradients)).float()
        total = torch.zeros_like(norm) if self.total is None else self.total.to(norm.device)
        count = torch.as_tensor(self.count, dtype=torch.float32, device=norm.device)
        sums = torch.stack([total, count, norm])
        if processes > 1:
            distributed.all_reduce(sums)
        loss, counted, norms = sums.tolist()
        scale = 1.0 if self.total is None else processes * micro_batches / counted if counted > 0 else 0.0
        self.loss = loss / counted if counted > 0 else loss
        self.norm = norms / processes * scale
        if not (math.isfinite(loss) and math.isfinite(norms)):
            return False
        if scale != 1.0 and gradients:
            torch._foreach_mul_(gradients, scale)
        return True


def drop(parameters: Sequence[nn.Parameter]) -> None:
    """Forget the gradients: an optimiser leaves a parameter without one alone, and all that it keeps of it."""
    for parameter in parameters:
        parameter.grad = None


def clip(parameters: Sequence[nn.Parameter], norm: float, most: float) -> None:
    """Scale gradients, whose norm is known, to a norm of at most ``most``."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if norm > most and gradients:
        torch._foreach_mul_(gradients, most / (norm + 1e-6))
