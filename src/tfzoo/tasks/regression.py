"""Regression: a number for each text."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10, nan
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfzoo.base import adapters
from tfzoo.base.registry import register
from tfzoo.data.batches import ClassificationBatch
from tfzoo.data.classification import LabelledText
from tfzoo.data.prepare import location
from tfzoo.data.table import Numbers
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadData, BadOption
from tfzoo.learning.adapter import is_adapted
from tfzoo.learning.text_task import TextTask

LARGEST = float(np.finfo(np.float32).max)


class RegressionData(LabelledText):
    """Batches of texts for :class:`RegressionTask`; a label is a number. Where the text comes from
    and how it is read: :class:`~tfzoo.data.classification.LabelledText`.

    Raises:
        BadData: a label that is no finite number; the message names its place.
    """

    label_cells = Numbers

    def targets(self, name: str, cells: Sequence[str]) -> NDArray[np.float64]:
        """The number of each example."""
        found = np.array([*map(number, cells)], np.float64)
        if np.isnan(found).any():
            row = int(np.isnan(found).argmax())
            where = location(self.splits[name], row, name)
            raise BadData(f"{where}: the label {cells[row]!r} is no finite number")
        return found


def number(cell: str) -> float:
    """The number in a cell; NaN if there is none that fp32 can hold."""
    try:
        found = nan if "_" in cell else float(cell)  # Python reads 1_000 as 1000
    except ValueError:
        return nan
    return found if abs(found) <= LARGEST else nan


def training_labels(data: Any) -> NDArray[np.float64] | None:
    """The labels of training; None of another package's data: they are learnt as they are."""
    train = getattr(data, "sets", {}).get("train")
    return None if train is None else np.asarray(train.labels[train.rows], np.float64)


def correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> Tensor:
    """Pearson's correlation; NaN where ``x`` or ``y`` is constant."""
    from scipy.stats import pearsonr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return torch.tensor(pearsonr(x, y).statistic if len(x) > 1 else nan)


@dataclass
class RegressionAnswer:
    """The number of a text, and whether the text was truncated because it is longer than the model
    reads.
    """

    value: float
    truncated: bool = False


@register("task", "regression")
class RegressionTask(TextTask):
    """Training, evaluation and inference of a model that gives a number for a text.

    The model learns ``(y - mean) / std``, with the mean and the standard deviation of the training
    labels, by the squared error; predictions are in the labels' own unit.

    A batch is a :class:`~tfzoo.ClassificationBatch` whose ``label`` ``(b)`` is float64.

    Args:
        model: a :class:`~tfzoo.TransformerClassifier` with the tokenizer's vocabulary size and
            ``classes=1``, or any module that maps ``tokens`` to ``(b 1)``.
        tokenizer: ``RegressionData.vocabulary``: the tokenizer; it has no labels.
    """

    Data = RegressionData
    example: ClassVar[Mapping[str, Any]] = {
        "data": {"dataset": {"name": "listops", "train": 64, "val": 16, "test": 16}}
    }
    about = "a number for each line of text"
    published = "regression"
    smooths_labels = False
    Answer = RegressionAnswer
    label = "number"
    monitor = "val/mse"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "mse": False,
        "mae": False,
        "pearson": True,
        "spearman": True,
    }
    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, tokenizer: Vocabulary, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        # Buffers, so that a checkpoint has those of its training set.
        self.register_buffer("mean", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("std", torch.tensor(1.0, dtype=torch.float64))

    @classmethod
    def outputs(cls, vocabulary: Vocabulary | None) -> int:
        return 1

    def check(self, data: Any) -> None:
        """As :meth:`Task.check`; also a BadOption for a precision in which labels would be rounded,
        and before a training BadData where all its labels are equal.
        """
        super().check(data)
        trainer, numbers = adapters.trainer_of(self), training_labels(data)
        if getattr(trainer, "precision", None) in ("16-true", "bf16-true"):
            raise BadOption(
                f"trainer.precision {trainer.precision} would round the labels to 16 bits: take "
                f"{trainer.precision.removesuffix('true')}mixed"
            )
        evaluates = trainer is not None and trainer.state.fn != "fit"
        if numbers is not None and numbers.std() == 0 and not evaluates:
            raise BadData(f"train: every label is {numbers[0]:g}; nothing can be learnt of them")

    def on_fit_start(self) -> None:
        """Take mean and standard deviation from the training set."""
        numbers = training_labels(self.trainer.datamodule)  # type: ignore[attr-defined]  # or None
        if numbers is not None:
            self.mean.fill_(float(numbers.mean()))
            self.std.fill_(float(numbers.std()))

    def numbers(self, logits: Tensor) -> Tensor:
        """What the model gives, in the labels' own unit: ``(b 1) -> (b)``, float64."""
        return logits[:, 0].double() * self.std + self.mean

    def losses(self, logits: Tensor, batch: ClassificationBatch) -> tuple[Tensor, Tensor]:
        found = ((self.numbers(logits) - batch.label) / self.std).square()
        return found, torch.ones_like(found)

    def columns_of(self, logits: Tensor, batch: ClassificationBatch) -> tuple[Tensor, ...]:
        return self.numbers(logits), batch.label

    def compute_scores(self, predicted: Tensor, label: Tensor) -> dict[str, Tensor]:
        """``mse``, the mean squared error, and ``mae``, the mean absolute error; ``pearson``, the
        correlation of predictions and labels, and ``spearman``, that of their ranks, which are NaN
        where all predictions are equal, or all labels. The ``loss`` is the mean squared error in
        units of the training labels' variance.
        """
        from scipy.stats import rankdata

        error, columns = predicted - label, (predicted.numpy(), label.numpy())
        return {
            "mse": error.square().mean(),
            "mae": error.abs().mean(),
            "pearson": correlation(*columns),
            "spearman": correlation(*map(rankdata, columns)),
        }

    def constant_loss(self, data: Any) -> float:
        """The variance of the labels, in units of that of training."""
        return float(np.var(np.asarray(data.sets["val"].labels, np.float64)) / self.std.item() ** 2)

    def answers_of(self, batch: ClassificationBatch, options: Any = None) -> list[RegressionAnswer]:
        return [RegressionAnswer(value) for value in self.numbers(self.logits(batch)).tolist()]

    def references(self, batch: ClassificationBatch) -> list[float]:
        return batch.label.tolist()

    def output_line(self, answer: RegressionAnswer) -> str:
        """The number with as many digits as six of the labels' deviation would have."""
        places = 5 - floor(log10(float(self.std)))
        return f"{round(answer.value, places):.15g}"

    def model_to_export(self, *, keep_adapter: bool = False) -> nn.Module:
        """The model with mean and standard deviation in its last layer, which counts as trained; a
        BadOption where this has an adapter, below which both belong, or where the mean is so large
        that outputs would be rounded.
        """
        model: Any = super().model_to_export(keep_adapter=keep_adapter)
        if is_adapted(model.head):
            raise BadOption(
                "the head has an adapter, which cannot be written without the labels' mean and "
                "standard deviation: write the whole model (--to transformers), or train the head "
                "beside the adapter (adapter.train: [head])"
            )
        mean, std = float(self.mean), float(self.std)
        if abs(mean) * torch.finfo(model.head.weight.dtype).eps > std / 1000:
            raise BadOption(
                f"the labels lie around {mean:g}, {std:g} apart, which the outputs of the exported "
                "model cannot tell apart: train with labels less a constant"
            )
        with torch.no_grad():
            model.head.weight.mul_(std)
            model.head.bias.mul_(std).add_(mean)
        model.head.requires_grad_(True)
        return model  # type: ignore[no-any-return]  # a module
