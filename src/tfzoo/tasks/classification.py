"""Classification: a label for each text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfzoo.base.registry import register
from tfzoo.base.terminal import tsv_cell
from tfzoo.base.values import Named, check_range
from tfzoo.data.batches import ClassificationBatch, ClassificationDataset
from tfzoo.data.classification import ClassificationData
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadOption, did_you_mean, listing
from tfzoo.learning.cross_entropy import class_losses, constant_loss
from tfzoo.learning.scoring import Figures, on_cpu
from tfzoo.learning.settings import Settings
from tfzoo.learning.text_task import TextTask
from tfzoo.plots.confusion import confusion_figure

BINS = 15
"""Intervals of probability in which confidence and accuracy are compared."""


def confusion(label: Tensor, predicted: Tensor, classes: int) -> Tensor:
    """The confusion matrix ``(c c)`` of classes ``(b)``: rows are true classes, columns predicted
    ones.
    """
    return torch.bincount(label * classes + predicted, minlength=classes**2).view(classes, -1)


@dataclass
class ClassificationAnswer:
    """The most probable label, the probabilities of all labels, the largest first, and whether the
    text was truncated because it is longer than the model reads.
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    truncated: bool = False


@dataclass
class Loss(Named):
    """Class weights of a classifier's loss.

    Args:
        class_weights: weights by label, such as ``{NUM: 2.0}``; other labels have weight 1. Or
            ``balanced``: the weight of a class is ``n / (c n_y)``, with ``n`` training texts, ``c``
            classes and ``n_y`` texts of the class. None: all weights are 1. The loss is the
            weighted mean over texts, so that only the ratios of weights matter.

    Raises:
        BadOption: a weight that is negative or not finite, or a value of another form.
    """

    class_weights: Literal["balanced"] | dict[str, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.class_weights, Mapping):
            for label, weight in self.class_weights.items():
                check_range(f"loss.class_weights[{str(label)!r}]", weight, ge=0)
            self.class_weights = {
                normalize("NFC", str(label)): float(w) for label, w in self.class_weights.items()
            }
        elif self.class_weights not in (None, "balanced"):
            raise BadOption(
                f"={self.class_weights!r} is neither 'balanced' nor weights by "
                "label such as {NUM: 2.0}",
                key="loss.class_weights",
            )

    def weights(self, labels: Sequence[str], counts: Sequence[int] | None = None) -> Tensor | None:
        """The weight of each class: ``(c)``. ``counts`` are the numbers of training texts per
        class; without them, ``balanced`` gives None. A BadOption for a label that the data does not
        have, or where every weight is 0.
        """
        if self.class_weights is None:
            return torch.ones(len(labels))
        if isinstance(self.class_weights, Mapping):
            for label in self.class_weights.keys() - set(labels):
                raise BadOption(
                    f": no label {label!r}.{did_you_mean(label, labels)} Labels: {listing(labels)}",
                    key="loss.class_weights",
                )
            weights = torch.tensor([self.class_weights.get(label, 1.0) for label in labels])
            if not bool(weights.any()):
                raise BadOption(": every weight is 0", key="loss.class_weights")
            return weights
        if counts is None:
            return None
        each = torch.tensor(counts)
        return each.sum() / (len(labels) * each.clamp(min=1.0))


@dataclass(kw_only=True)
class ClassificationSettings(Settings):
    """The settings of a classifier."""

    loss: Loss = field(default_factory=Loss)


@register("task", "classification")
class ClassificationTask(TextTask):
    """Training, evaluation and inference of a classifier of texts.

    A batch is a :class:`~tfzoo.ClassificationBatch`: ``tokens`` ``(b n)``, int64 ids that end with
    EOS and are padded on the right; ``label`` ``(b)``, int64; ``padding``, whether any row
    is padded; ``index``, the row of each text in its data set; ``source_text``, [] in training.

    Args:
        model: a :class:`~tfzoo.TransformerClassifier` with the tokenizer's vocabulary size and
            number of labels, or any module that maps ``tokens`` to logits ``(b classes)``.
        tokenizer: ``ClassificationData.vocabulary``: the tokenizer and the labels.
        loss: class weights.

    Raises:
        BadOption: a class weight of a label that does not exist; a module returns no logits.
    """

    Data = ClassificationData
    example: ClassVar[Mapping[str, Any]] = {
        "data": {"dataset": {"name": "listops", "train": 64, "val": 16, "test": 16}}
    }
    about = "the label of each line of text, and its probability"
    Answer = ClassificationAnswer
    shares = "accuracy macro_f1 calibration_error"
    published = "single_label_classification"
    monitor = "val/accuracy"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "accuracy": True,
        "macro_f1": True,
        "calibration_error": False,
    }
    training_settings = frozenset({"optim", "loss", "compute"})
    Settings = ClassificationSettings
    loss: Loss
    class_weights: Tensor

    def __init__(self, model: nn.Module, tokenizer: Vocabulary, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        weights = self.loss.weights(self.labels)
        # A buffer, so that a checkpoint stores the balanced weights of its training set.
        self.register_buffer(
            "class_weights", torch.ones(len(self.labels)) if weights is None else weights
        )

    def constant_loss(self, data: Any) -> float:
        found = torch.from_numpy(counts(data.sets["val"], len(self.labels)))
        return constant_loss(found * self.class_weights.cpu(), self.optim.label_smoothing)

    def on_fit_start(self) -> None:
        """Set the class weights, balanced ones from the label counts of the training set; a
        BadOption where the data module is not a ``ClassificationData``.
        """
        trained = getattr(getattr(self.trainer, "datamodule", None), "sets", {}).get("train")
        found = None
        if isinstance(trained, ClassificationDataset):
            found = counts(trained, len(self.labels)).tolist()
        weights = self.loss.weights(self.labels, found)
        if weights is None:
            raise BadOption(
                "loss.class_weights: balanced needs ClassificationData, which counts labels; "
                "otherwise give weights by label such as {NUM: 2.0}"
            )
        self.class_weights.copy_(weights)

    def losses(self, logits: Tensor, batch: ClassificationBatch) -> tuple[Tensor, Tensor]:
        smoothed, _ = class_losses(logits, batch.label, self.optim.label_smoothing)
        weights = self.class_weights[batch.label]
        return weights * smoothed, weights

    def columns_of(self, logits: Tensor, batch: ClassificationBatch) -> tuple[Tensor, ...]:
        return *on_cpu(logits).softmax(-1).max(-1), batch.label

    def compute_scores(
        self, confidence: Tensor, predicted: Tensor, label: Tensor
    ) -> dict[str, Tensor]:
        """``accuracy``, the share of texts whose predicted class is right; ``macro_f1``, the mean
        of ``2 P R / (P + R)``, with precision P and recall R, over the classes that occur as a
        label or a prediction; ``calibration_error``, the expected calibration error, ``sum_m n_m /
        n |accuracy_m - confidence_m|`` over 15 bins of confidence (Guo et al. 2017, eq. 3). All are
        from 0 to 1. The ``loss`` is the weighted mean of the label-smoothed cross entropy.
        """
        right = predicted == label
        bins = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
        gaps = confidence.new_zeros(BINS).index_add_(0, bins, confidence - right.to(confidence))
        matrix = confusion(label, predicted, len(self.labels)).double()
        either = matrix.sum(0) + matrix.sum(1)
        return {
            "accuracy": right,
            "macro_f1": (2 * matrix.diag() / either)[either > 0].mean(),
            "calibration_error": gaps.abs().sum() / len(label),
        }

    def figures(self, columns: Sequence[Tensor], title: str) -> Figures:
        """The confusion matrix."""
        _, predicted, label = columns
        matrix = confusion(label, predicted, len(self.labels))
        return {"confusion": partial(confusion_figure, matrix, self.labels, title)}

    def answers_of(
        self, batch: ClassificationBatch, options: Any = None
    ) -> list[ClassificationAnswer]:
        logits = self.logits(batch).cpu()
        best = logits.argsort(-1, descending=True)  # probabilities may round to the same
        answers = []
        for ids, p in zip(best.tolist(), logits.double().softmax(-1).tolist(), strict=True):
            ranked = {self.labels[index]: p[index] for index in ids}
            answers.append(ClassificationAnswer(*next(iter(ranked.items())), ranked))
        return answers

    def references(self, batch: ClassificationBatch) -> list[str]:
        return [self.labels[label] for label in batch.label.tolist()]

    def output_line(self, answer: ClassificationAnswer) -> str:
        return f"{tsv_cell(answer.label)}\t{answer.probability:.4f}"


def counts(texts: ClassificationDataset, classes: int) -> NDArray[np.int64]:
    """The number of texts of each class, among the rows that the split uses."""
    return np.bincount(texts.labels[texts.rows], minlength=classes)
