"""One step of the optimiser, over all its micro-batches and processes: a mean over all that they
counted, taken by all or by none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from tfzoo import _adapters
from tfzoo.models.fsdp import full_tensor


class GradientNormalizer:
    """Sums up the micro-batches of one step, then turns the gradients of their summed losses into
    those of their mean.
    """

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

    def finish(
        self,
        parameters: Sequence[nn.Parameter],
        processes: int,
        micro_batches: int,
        most: float | None = None,
    ) -> bool:
        """Scale the gradients to those of the mean, and where their norm is over ``most`` to that
        norm. All processes call it.

        False where the gradients of any process, or its loss, are not finite; then nothing is
        scaled. Strategies average gradients over ``processes``, and Lightning divides a loss by
        ``micro_batches``: both are undone. Where nothing was counted the losses are means already.
        Costs one all-reduce of three numbers, and waits for the device once.
        """
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = full_tensor(nn.utils.get_total_norm(gradients)).float()
        total = torch.zeros_like(norm) if self.total is None else self.total.to(norm.device)
        count = torch.as_tensor(self.count, dtype=torch.float32, device=norm.device)
        sums = torch.stack([total, count, norm])
        if processes > 1:
            distributed.all_reduce(sums)
        loss, counted, norms = sums.tolist()
        scale = (
            1.0
            if self.total is None
            else processes * micro_batches / counted
            if counted > 0
            else 0.0
        )
        self.loss = loss / counted if counted > 0 else loss
        self.norm = norms / processes * scale
        if not (math.isfinite(loss) and math.isfinite(norms)):
            return False
        if most and self.norm > most:
            scale *= most / (self.norm + 1e-6)  # as torch's clip_grad_norm_
        if scale != 1.0 and gradients:
            _adapters.scale_in_place(gradients, scale)  # once, clipped or not
        return True


def drop(parameters: Sequence[nn.Parameter]) -> None:
    """Forget the gradients: an optimiser leaves a parameter without one alone, and all that it
    keeps of it.
    """
    for parameter in parameters:
        parameter.grad = None
