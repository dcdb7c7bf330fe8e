"""Multi-label classification: any number of labels for each text."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from tfzoo.base.registry import register
from tfzoo.base.terminal import tsv_cell
from tfzoo.data.batches import ClassificationBatch
from tfzoo.data.classification import LabelledText
from tfzoo.data.prepare import location
from tfzoo.data.table import Lists
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadData, BadOption
from tfzoo.learning.text_task import TextTask


class MultilabelData(LabelledText):
    """Batches of texts for :class:`MultilabelClassificationTask`; any number of labels belong to a
    text. Where the text comes from and how it is read:
    :class:`~tfzoo.data.classification.LabelledText`.

    The labels of a text are in one column, ``"sports,politics"``, with or without spaces after the
    delimiter; or they are a list, ``["sports", "politics"]``, also as text in JSON or as Python
    writes it. An empty cell is a text without labels.

    Args:
        label_delimiter: what separates the labels of a text.

    Raises:
        BadOption: the delimiter is empty.
        BadData: no example of training has a label, or its cells are lists of 0 and 1; a label of
            another split is none of training's.
    """

    label_cells = Lists

    def __init__(self, *, label_delimiter: str = ",", **text: Any) -> None:
        super().__init__(**text)
        if not label_delimiter:
            raise BadOption("data.label_delimiter is empty; give what separates two labels")
        self.label_delimiter = label_delimiter

    def labels_of(self, cell: str) -> list[str]:
        """The labels in a cell: what the delimiter separates, or a list in JSON."""
        parts: list[Any] = cell.split(self.label_delimiter)
        if cell.startswith("["):
            with suppress(ValueError):  # a label that begins with a bracket
                parts = json.loads(cell)
        labels = (normalize("NFC", str(part).strip()) for part in parts)
        return [label for label in labels if label]

    def check_labels(self, labels: Sequence[str]) -> None:
        """Raise BadData if there is none, or if cells have a flag for each label."""
        if not labels:
            raise BadData("train: no example has a label")
        if {*labels} <= {"0", "1"}:
            for row, (_, cell) in enumerate(self.splits["train"]):
                flags = self.labels_of(cell)
                if len({*flags}) < len(flags):
                    where = location(self.splits["train"], row, "train")
                    raise BadData(
                        f"{where}: {', '.join(flags)} is a flag for each label; name the labels "
                        'of a text instead, such as ["sports", "politics"]'
                    )

    def targets(self, name: str, cells: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each example has each label: ``(examples, labels)``."""
        labels = self.label_ids(name, cells)
        flags = np.zeros((len(labels), len(self.vocabulary.labels)), np.bool_)
        flags[np.repeat(np.arange(len(labels)), labels.lengths), labels.ids] = True
        return flags


def best_threshold(logits: Tensor, label: Tensor) -> float:
    """The threshold with the largest ``micro_f1`` on texts of logits and labels ``(b labels)``:
    between the probability of the last decision that is positive and that of the next one. 0.5 if
    no text has a label.

    >>> logits = torch.tensor([[2.0, -1.0], [1.0, 3.0], [-2.0, -3.0]])
    >>> round(best_threshold(logits, torch.tensor([[1, 0], [0, 1], [0, 0]])), 2)
    0.81
    """
    if not label.any():
        return 0.5
    probability, order = logits.flatten().sigmoid().sort(descending=True)
    right = label.flatten().long()[order].cumsum(0)
    taken = torch.arange(1, len(right) + 1)
    f1 = 2 * right / (taken + right[-1])
    following = torch.cat([probability[1:], probability.new_zeros(1)])
    # equal probabilities are on one side of every threshold
    best = f1.where(probability > following, 0.0).argmax()
    middle = (probability[best] + following[best]) / 2
    return float(middle.where(middle < probability[best], following[best]))


def roc_area(values: Tensor, positive: Tensor) -> float:
    """The area under the ROC curve: the share of pairs of a positive and a negative one of which
    the positive one has the larger value, where equal values count half (Mann and Whitney 1947).
    """
    from scipy.stats import rankdata

    count = int(positive.sum())
    above = rankdata(values)[positive].sum() - count * (count + 1) / 2
    return float(above) / (count * (len(values) - count))


@dataclass
class MultilabelAnswer:
    """The labels of a text, the most probable first; the probabilities of all labels, the largest
    first; and whether the text was truncated because it is longer than the model reads.
    """

    labels: list[str]
    probabilities: dict[str, float]
    truncated: bool = False


@register("task", "multilabel_classification")
class MultilabelClassificationTask(TextTask):
    """Training, evaluation and inference of a model that gives any number of labels to a text.

    Each label has a probability of its own, ``sigmoid(logit)``, and is learnt by the binary cross
    entropy. A label is predicted where its probability is over :attr:`threshold`. Each validation
    of a training sets it to the one with the largest micro F1 there, and scores with it; it is a
    part of every checkpoint.

    A batch is a :class:`~tfzoo.ClassificationBatch` whose ``label`` ``(b labels)`` is 0 or 1.

    Args:
        model: a :class:`~tfzoo.TransformerClassifier` with the tokenizer's vocabulary size and
            number of labels, or any module that maps ``tokens`` to logits ``(b labels)``.
        tokenizer: ``MultilabelData.vocabulary``: the tokenizer and the labels.
    """

    Data = MultilabelData
    example: ClassVar[Mapping[str, Any]] = {
        "data": {"dataset": {"name": "reachable", "train": 64, "val": 16, "test": 16}}
    }
    about = "the labels of each line of text, with tabs between them"
    smooths_labels = False
    Answer = MultilabelAnswer
    published = "multi_label_classification"
    shares = "micro_f1 macro_f1 subset_accuracy"
    label = "several"
    monitor = "val/micro_f1"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "micro_f1": True,
        "macro_f1": True,
        "auroc": True,
        "subset_accuracy": True,
    }
    threshold: Tensor

    def __init__(self, model: nn.Module, tokenizer: Vocabulary, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        self.register_buffer("threshold", torch.tensor(0.5, dtype=torch.float64))

    @property
    def untrained_loss(self) -> float:
        return math.log(2)

    def constant_loss(self, data: Any) -> float:
        """The mean entropy of a label's being there."""
        held = data.sets["val"]
        share = torch.from_numpy(held.labels[held.rows]).double().mean(0)
        return float(torch.special.entr(torch.stack([share, 1 - share])).sum(0).mean())

    def losses(self, logits: Tensor, batch: ClassificationBatch) -> tuple[Tensor, Tensor]:
        """``-y log(p) - (1 - y) log(1 - p)``, ``p = sigmoid(logit)``."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        label = batch.label.to(logits.dtype)
        found = binary_cross_entropy_with_logits(logits, label, reduction="none")
        return found, torch.ones_like(found)

    def columns_of(self, logits: Tensor, batch: ClassificationBatch) -> tuple[Tensor, ...]:
        return logits, batch.label.bool()

    def compute_scores(self, logits: Tensor, label: Tensor) -> dict[str, Tensor]:
        """A label is predicted where its probability is over :attr:`threshold`. With the true
        positives TP, false positives FP and false negatives FN of a label, ``micro_f1`` is ``2 TP /
        (2 TP + FP + FN)`` of their sums over labels, and ``macro_f1`` the mean over the labels, 0
        for one that neither occurs nor is predicted. ``auroc`` is the mean of the labels' areas
        under the ROC curve, over those that some texts have and others have not (0.5 if there is
        none). ``subset_accuracy`` is the share of texts whose predicted labels are all the right
        ones and no others. The ``loss`` is the mean binary cross entropy over texts and labels.
        """
        some = label.any(0) & ~label.all(0)
        areas = [roc_area(*column) for column in zip(logits.T[some], label.T[some], strict=True)]
        taken = logits.sigmoid() > self.threshold.cpu()
        both, either = (taken & label).sum(0), taken.sum(0) + label.sum(0)
        return {
            "micro_f1": 2 * both.sum().double() / either.sum().clamp(min=1),
            "macro_f1": (2 * both.double() / either.clamp(min=1)).mean(),
            "auroc": torch.tensor(areas or [0.5]).mean(),
            "subset_accuracy": (taken == label).all(1),
        }

    def on_validation_epoch_end(self) -> None:
        """While training, choose the threshold; log the scores with it."""
        if self.trainer.state.fn == "fit" and not self.trainer.sanity_checking:
            self.threshold.fill_(best_threshold(*self.scores[0].columns))
        super().on_validation_epoch_end()

    def answers_of(self, batch: ClassificationBatch, options: Any = None) -> list[MultilabelAnswer]:
        answers = []
        for row in self.logits(batch).cpu().double().sigmoid():  # of large logits fp32 has 1
            found, order = row.sort(descending=True)
            ranked = [self.labels[index] for index in order.tolist()]
            taken = int((found > self.threshold.cpu()).sum())
            probabilities = dict(zip(ranked, found.tolist(), strict=True))
            answers.append(MultilabelAnswer(ranked[:taken], probabilities))
        return answers

    def references(self, batch: ClassificationBatch) -> list[list[str]]:
        return [[*compress(self.labels, flags)] for flags in batch.label.tolist()]

    def output_line(self, answer: MultilabelAnswer) -> str:
        return "\t".join(map(tsv_cell, answer.labels))
