"""The classification task: model, loss, scores, and inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfzoo.data.classification import ClassificationData
from tfzoo.data.classification_batch import ClassificationBatch, ClassificationDataset, Vocabulary
from tfzoo.data.inference_batches import OnTruncated, classification_batches
from tfzoo.errors import BadOption
from tfzoo.models.classifier import TransformerClassifier
from tfzoo.plots.confusion import confusion_figure
from tfzoo.plots.loggers import log_figure
from tfzoo.plots.style import save
from tfzoo.special_ids import PAD
from tfzoo.tasks import foreign
from tfzoo.tasks.attention import classification_attention
from tfzoo.tasks.classification_scores import ClassificationScores
from tfzoo.tasks.compute import Compute
from tfzoo.tasks.evaluation import rows_of
from tfzoo.tasks.loss import Loss, class_losses
from tfzoo.tasks.optim import Optim
from tfzoo.tasks.task import PLACEHOLDER_SIZE, Task
from tfzoo.values import check_range


class Prediction(NamedTuple):
    """A label and its probability."""

    label: str
    probability: float


class ClassificationTask(Task):
    """Training, evaluation and inference of a classifier of texts.

    A batch is a :class:`~tfzoo.ClassificationBatch`: ``tokens`` ``(b n)``, int64 ids that end with
    EOS and are padded on the right with 0; ``label`` ``(b)``, int64; ``padding``, whether any row
    is padded; ``index``, the row of each text in its data set; ``source_text``, [] in training.

    Args:
        model: a :class:`~tfzoo.TransformerClassifier` with the tokenizer's vocabulary size and
            number of labels, or any module that maps ``tokens`` to logits ``(b classes)``.
        tokenizer: ``ClassificationData.vocabulary``: the tokenizer and the labels.
        optim: learning rate, schedule and label smoothing.
        loss: class weights.
        compute: compilation of layers, activation checkpointing.
        seed: the random state of each training batch is derived from it.

    Raises:
        BadOption: a class weight of a label that does not exist; a module returns no logits.
    """

    name: ClassVar[str] = "classification"
    Model: ClassVar[type[nn.Module]] = TransformerClassifier
    Data = ClassificationData
    tokenizer_of_data = "vocabulary"
    command, pipeline_tag = "classify", "text-classification"
    monitor = "val/accuracy"
    score_names = ("loss", "accuracy", "macro_f1", "calibration_error")
    training_names = (*Task.training_names, "accuracy")
    attention = classification_attention
    training_settings = frozenset({"optim", "loss", "compute"})
    model: Any
    tokenizer: Vocabulary
    class_weights: Tensor

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Vocabulary,
        *,
        optim: Optim | None = None,
        loss: Loss | None = None,
        compute: Compute | None = None,
        seed: int = 0,
    ) -> None:
        loss = loss or Loss()
        super().__init__(
            model,
            tokenizer,
            {"optim": optim or Optim(), "loss": loss, "compute": compute or Compute()},
            seed,
        )
        self.loss_settings = loss
        weights = loss.weights(self.labels)
        # A buffer, so that a checkpoint stores the balanced weights of its training set.
        self.register_buffer(
            "class_weights", torch.ones(len(self.labels)) if weights is None else weights
        )
        self.confusion: dict[str, Tensor] = {}

    @property
    def labels(self) -> list[str]:
        """The label of each class, in the order of the logits."""
        return list(self.tokenizer.labels)

    @property
    def untrained_loss(self) -> float:
        return math.log(len(self.labels))

    @classmethod
    def model_arguments(
        cls, tokenizer: Vocabulary | None = None, data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        if tokenizer is None:
            return {"vocab_size": PLACEHOLDER_SIZE, "classes": 2}
        return {"vocab_size": len(tokenizer.tokenizer), "classes": len(tokenizer.labels)}

    @classmethod
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> Vocabulary:
        return Vocabulary.restore(state)

    def on_fit_start(self) -> None:
        """Set the class weights, balanced ones from the label counts of the training set.

        Raises:
            BadOption: balanced weights, and the data module is not a ``ClassificationData``.
        """
        trained = getattr(getattr(self.trainer, "datamodule", None), "sets", {}).get("train")
        found = None
        if isinstance(trained, ClassificationDataset):
            found = counts(trained, len(self.labels)).tolist()
        weights = self.loss_settings.weights(self.labels, found)
        if weights is None:
            raise BadOption(
                "loss.class_weights: balanced needs ClassificationData, which counts labels; "
                "otherwise give weights by label such as {NUM: 2.0}"
            )
        self.class_weights.copy_(weights)

    def max_positions(self) -> tuple[int | None, int | None]:
        return (getattr(self.model, "max_positions", None),) * 2

    def logits(self, batch: ClassificationBatch) -> Tensor:
        """Logits: ``(b classes)``."""
        if self.foreign:
            return foreign.class_logits(self.model, batch.tokens, len(self.labels))
        return self.model(batch.tokens, padding="right" if batch.padding else "none")  # type: ignore[no-any-return]

    def forward_batch(self, batch: ClassificationBatch) -> object:
        return self.logits(batch)

    def training_step(self, batch: ClassificationBatch, batch_idx: int) -> Tensor:
        logits = self.logits(batch)
        smoothed, _ = class_losses(logits, batch.label, self.optim.label_smoothing)
        weights = self.class_weights[batch.label]
        right = (logits.argmax(-1) == batch.label).float().mean()
        tokens = (batch.tokens != PAD).sum() if batch.padding else batch.tokens.numel()
        self.log_training({"train/accuracy": right}, tokens)
        return self.summed((weights * smoothed).sum(), weights.sum())

    def new_scores(self) -> ClassificationScores:
        return ClassificationScores(len(self.labels))

    def score(self, batch: ClassificationBatch, scores: ClassificationScores) -> None:
        with self.throughput.timed(self.device):
            logits = self.logits(batch)
        self.throughput.items += len(batch.label)
        smoothed, _ = class_losses(logits, batch.label, self.optim.label_smoothing)
        scores.update(logits, batch.label, smoothed, self.class_weights[batch.label])

    def on_test_start(self) -> None:
        super().on_test_start()
        self.confusion = {}

    def on_test_epoch_end(self) -> None:
        """Log the scores and, to loggers that accept images, the confusion matrices."""
        super().on_test_epoch_end()
        names = self.test_names()
        for index, scores in enumerate(self.scores):
            name = names[index] if index < len(names) else "test"
            self.confusion[name] = scores.confusion()  # type: ignore[operator]  # ClassificationScores; a collective call
        if self.trainer.is_global_zero:
            step = self.trainer.global_step
            for name, matrix in self.confusion.items():
                draw = partial(confusion_figure, matrix, self.labels, name)
                log_figure(self.trainer.loggers, f"{name}/confusion", draw, step)

    def compare_with_baselines(self, data: Any, scores: Mapping[str, float]) -> str:
        """Test accuracies in a line, ``majority 12.0 %  root operator 25.0 %  accuracy 61.0 %``: of
        always predicting the most frequent class, of the data set's baselines, of the model.
        """
        if "test/accuracy" not in scores:
            return ""
        name = "test" if "test" in data.test_names else data.test_names[0]
        majority = counts(data.sets["train"], len(self.labels)).argmax()
        accuracies = {"majority": float((data.sets[name].classes == majority).mean())}
        if hasattr(data.built_in, "baselines"):
            accuracies |= data.built_in.baselines(data.splits["train"], data.splits[name])
        return "  ".join(
            f"{who} {share:.1%}".replace("%", " %")
            for who, share in {**accuracies, "accuracy": scores["test/accuracy"]}.items()
        )

    def save_figures(self, folder: Path) -> list[Path]:
        """Draw the confusion matrix of each test set: ``confusion.png``, or ``confusion_<set>.png``
        if there are several.
        """
        paths = []
        for name, matrix in self.confusion.items():
            only = name == "test" or len(self.confusion) == 1
            paths.append(folder / ("confusion.png" if only else f"confusion_{name}.png"))
            save(confusion_figure(matrix, self.labels, name), paths[-1])
        return paths

    def prediction_rows(self, batch: ClassificationBatch) -> list[dict[str, Any]]:
        found = self.predict_batch(batch)
        columns = {
            "text": batch.source_text,
            "label": [self.labels[label] for label in batch.label.tolist()],
            "prediction": [one.label for one in found],
            "probability": [one.probability for one in found],
        }
        return rows_of(columns)

    def classify(
        self,
        lines: Iterable[str],
        *,
        max_tokens: int = 4096,
        progress: Callable[[int], object] | None = None,
        on_truncated: OnTruncated | None = None,
    ) -> list[Prediction]:
        """The most probable label of each line and its probability, in order. Arguments as in
        :meth:`classifications`.
        """
        found = self.classifications(
            lines, top_k=1, max_tokens=max_tokens, progress=progress, on_truncated=on_truncated
        )
        return [best for (best,) in found]

    def classifications(
        self,
        lines: Iterable[str],
        *,
        top_k: int | None = None,
        max_tokens: int = 4096,
        progress: Callable[[int], object] | None = None,
        on_truncated: OnTruncated | None = None,
    ) -> list[list[Prediction]]:
        """The labels of each line with their probabilities, the most probable first::

            for best in task.classifications(["[MAX 4 3 ]"], top_k=3):
                print([(one.label, one.probability) for one in best])

        Args:
            lines: texts. A text longer than the model's positions or the recipe's
                ``data.max_length`` is truncated.
            top_k: the number of labels; None or more than there are: all.
            max_tokens: maximum number of tokens of a batch.
            progress: called with the number of lines of each finished batch.
            on_truncated: called with the indices of truncated lines, if there are any, and the
                number of tokens that are read of each; None: a ``UserWarning`` counts them.

        Raises:
            BadOption: ``top_k`` is under 1.
            BadData: ``lines`` is one string.
        """
        check_range("top_k", top_k, ge=1, whole=True, optional=True)
        batches = classification_batches(
            lines, self.tokenizer, max_tokens, self.max_length(), on_truncated
        )
        return self.in_order(batches, lambda batch: self._ranked(batch, top_k), progress)

    def max_length(self) -> int | None:
        """The number of tokens that are read of a text, EOS included: the model's positions or
        ``data.max_length`` of the recipe, whichever is less; None: all.
        """
        trained = self.recipe.get("data", {}).get("max_length")
        limits = [self.max_positions()[0], None if trained is None else trained + 1]
        return min((one for one in limits if one is not None), default=None)

    def predict_batch(self, batch: ClassificationBatch) -> list[Prediction]:
        return [best for (best,) in self._ranked(batch, 1)]

    def _ranked(self, batch: ClassificationBatch, top_k: int | None) -> list[list[Prediction]]:
        """The ``top_k`` most probable labels of each text; None or more than there are: all."""
        labels = self.labels
        found = self.logits(batch).float().softmax(-1).topk(len(labels[:top_k]), -1)
        return [
            [Prediction(labels[index], p) for index, p in zip(indices, values, strict=True)]
            for indices, values in zip(found.indices.tolist(), found.values.tolist(), strict=True)
        ]


def counts(texts: ClassificationDataset, classes: int) -> NDArray[np.int64]:
    """The number of texts of each class, among the rows that the split uses."""
    return np.bincount(texts.classes[texts.rows], minlength=classes)
