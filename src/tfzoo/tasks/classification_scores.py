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
    """The scores of one data set, all but ``loss`` from 0 to 1.

    ``loss`` is the weighted mean of the label-smoothed cross entropy; ``accuracy`` the share of
    texts whose predicted class is right; ``macro_f1`` the mean of ``2 P R / (P + R)``, with
    precision P and recall R, over the classes that occur as a label or a prediction;
    ``calibration_error`` the expected calibration error, ``sum_m n_m / n |accuracy_m -
    confidence_m|`` over 15 bins of confidence (Guo et al. 2017, eq. 3).

    >>> scores = ClassificationScores(2)
    >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])
    >>> scores.update(logits, torch.tensor([0, 1, 1]), torch.zeros(3), torch.ones(3))
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
        """Add a batch: logits ``(b c)``, and label, loss and class weight of each text, ``(b)``."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
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
        """The confusion matrix ``(c c)``: rows are true classes, columns predicted ones."""
        matrix: Tensor = self.matrix.compute()
        return matrix.to(torch.int64)
