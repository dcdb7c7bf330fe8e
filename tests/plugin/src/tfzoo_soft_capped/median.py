from __future__ import annotations

from torch import Tensor

from tfzoo import register
from tfzoo.tasks.regression import RegressionTask


@register("task", "median")
class MedianTask(RegressionTask):
    """Regression by the absolute error, ``|p - y| / std``, which a median makes smallest."""

    about = "the median of a number for each line of text"
    monitor = "val/mae"

    def errors(self, predicted: Tensor, label: Tensor) -> Tensor:
        return ((predicted - label) / self.std).abs()
