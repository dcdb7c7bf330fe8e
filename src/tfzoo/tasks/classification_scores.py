"""Scores of a classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassCalibrationError,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)


class ClassificationScores(nn.Module):
    """All that is measured on one set of texts, from 0 to 1.

    ``accuracy`` is the share of texts whose class is right; ``macro_f1`` the mean over classes of
    ``2 P R / (P + R)``; ``calibration_error`` the mean distance between how sure the classifier is
    and how often it is right, in 15 bins (Guo et al. 2017, eq. 3).

    >>> scores = ClassScores(2)
    >>> scores.update(torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), torch.tensor([0, 1, 1]), torch.zeros(3), torch.ones(3))
    >>> {name: round(float(value), 2) for name, value in scores.compute().items()}
    {'loss': 0.0, 'accuracy': 0.67, 'macro_f1': 0.67, 'calibration_error': 0.32}
    >>> scores.confusion().tolist()
    [[1, 0], [1, 1]]
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.loss = MeanMetric()
        self.accuracy = MulticlassAccuracy(classes, average="micro", validate_args=False)
        self.f1 = MulticlassF1Score(classes, average="macro", validate_args=False)
        self.calibration = MulticlassCalibrationError(
            classes, n_bins=15, norm="l1", validate_args=False
        )
        self.matrix = MulticlassConfusionMatrix(classes, validate_args=False)

    def update(self, logits: Tensor, label: Tensor, loss: Tensor, weight: Tensor) -> None:
        """Add a batch: ``(b c), (b)``, and the loss and the weight of each text, ``(b)``."""
        logits = logits.float()
        for metric in (self.accuracy, self.f1, self.matrix):
            metric.update(logits, label)
        self.calibration.update(logits.softmax(-1), label)
        self.loss.update(loss, weight=weight)

    def compute(self) -> dict[str, Tensor]:
        """``loss``, ``accuracy``, ``macro_f1``, ``calibration_error``, over all processes."""
        return {
            "loss": self.loss.compute(),
            "accuracy": self.accuracy.compute(),
            "macro_f1": self.f1.compute(),
            "calibration_error": self.calibration.compute(),
        }

    def confusion(self) -> Tensor:
        """How many texts of each class (row) were taken for each (column): ``(c c)``."""
        matrix: Tensor = self.matrix.compute()
        return matrix.to(torch.int64)
