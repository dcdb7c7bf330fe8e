from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo import register
from tfzoo.data.batches import ClassificationBatch
from tfzoo.learning.text_task import TextTask
from tfzoo.tasks.regression import RegressionAnswer, RegressionData


@register("task", "counts")
class CountTask(TextTask):
    """Poisson regression: the model gives the logarithm of a count's mean."""

    Data = RegressionData
    Answer = RegressionAnswer
    about = "a count for each line of text"
    example: ClassVar = {"data": {"dataset": {"name": "listops", "train": 64, "val": 8, "test": 8}}}
    label = "number"
    smooths_labels = False
    monitor = "val/mae"
    higher_is_better: ClassVar = {"loss": False, "mae": False}

    @classmethod
    def outputs(cls, vocabulary: Any) -> int:
        return 1

    def losses(self, logits: Tensor, batch: ClassificationBatch) -> tuple[Tensor, Tensor]:
        found = F.poisson_nll_loss(logits[:, 0].double(), batch.label, reduction="none")
        return found, torch.ones_like(found)

    def columns_of(self, logits: Tensor, batch: ClassificationBatch) -> tuple[Tensor, ...]:
        return logits[:, 0].double().exp(), batch.label

    def compute_scores(self, predicted: Tensor, label: Tensor) -> dict[str, Tensor]:
        return {"mae": (predicted - label).abs().mean()}

    def answers_of(self, batch: ClassificationBatch, options: Any = None) -> list[RegressionAnswer]:
        return [RegressionAnswer(mean) for mean in self.logits(batch)[:, 0].exp().tolist()]

    def references(self, batch: ClassificationBatch) -> list[float]:
        return batch.label.tolist()
