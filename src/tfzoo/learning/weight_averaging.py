"""An average of the weights of recent steps, which is validated, tested and saved instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor

from tfzoo.base import adapters

START = 20
"""The higher, the fewer steps are averaged at the start."""


class WarmupEMA(WeightAveraging):
    """An exponential moving average over a share of the steps so far, until it spans as many as
    ``decay`` says: after step ``n``, counted from 0, ``average = d average + (1 - d) weights``
    with ``d = min(decay, (1 + n) / (20 + n))``, which spans about ``n / 19`` steps, or ``1 / (1 -
    decay)``. With ``decay`` from the start, the average would long hold the weights that training
    began with; so less than a millionth of them is left after ten steps. (As TensorFlow's
    ``tf.train.ExponentialMovingAverage`` with ``num_updates``, which has 10 in place of 20.)

    Buffers of the model are averaged, too, such as running statistics; those of the task itself are
    not: class weights, or the threshold that a validation has chosen with the average.

    Args:
        decay: over 0 and under 1.
    """

    def __init__(self, decay: float) -> None:
        super().__init__(multi_avg_fn=self.move)
        self.decay = decay
        self.step = 0

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """After each optimiser step."""
        if step_idx is not None:
            self.step = step_idx
        return step_idx is not None

    def move(self, averages: Sequence[Tensor], weights: Sequence[Tensor], _: Any) -> None:
        """Move averages towards the weights of this step; whole numbers are taken over."""
        decay = min(self.decay, (1 + self.step) / (START + self.step))
        for average, weight in zip(averages, weights, strict=True):
            if average.is_floating_point():
                average.lerp_(weight, 1 - decay)
            else:
                average.copy_(weight)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Give the average the task's own buffers: the same tensors, not copies."""
        for name, value in pl_module.named_buffers(recurse=False):
            setattr(adapters.average_of(self), name, value)
