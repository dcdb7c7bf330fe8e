"""What tasks of one kind of model share: those that give numbers for a text or for its words, such
as classes, and those that give logits of the vocabulary at places of a text.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfzoo.base.registry import task_for
from tfzoo.data.batches import ClassificationBatch, text_batches
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadOption
from tfzoo.learning.cross_entropy import constant_loss, cross_entropy, cross_entropy_of_logits
from tfzoo.learning.task import Task
from tfzoo.models.classifier import TransformerClassifier


class TextTask(Task):
    """A task whose model is a :class:`~tfzoo.TransformerClassifier`, or any module that maps
    ``tokens`` ``(b n)`` to numbers ``(b c)``.

    A subclass writes :meth:`losses`, :meth:`columns_of`, ``compute_scores``, ``answers_of`` and
    ``references``, :meth:`outputs` where they are no labels; ``Data``, ``Answer``, ``example``,
    ``about``, ``monitor`` and ``higher_is_better``.
    """

    Model: ClassVar[type[nn.Module]] = TransformerClassifier
    Batch: ClassVar[type] = ClassificationBatch
    line_batches: ClassVar[Callable[..., Iterable[Any]]] = staticmethod(text_batches)
    tokenizer: Vocabulary

    def __init__(self, model: nn.Module, tokenizer: Vocabulary, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        if tokenizer.pairs and not self.foreign:
            self.model.separator = tokenizer.special.sep[0]

    @classmethod
    def check_model(cls, model: TransformerClassifier) -> None:
        if model.pooling is None:
            raise BadOption(
                " is null, which classifies each token: name a pooling (tfzoo list "
                f"pooling), or set {task_for('words')}",
                key="model.pooling",
            )

    @property
    def text_names(self) -> list[str]:
        return list(self.tokenizer.texts)

    @property
    def labels(self) -> list[str]:
        """The labels, in the order of the logits; none where a label is no name."""
        return list(self.tokenizer.labels)

    @property
    def untrained_loss(self) -> float | None:
        return math.log(len(self.labels)) if self.labels else None

    @classmethod
    def outputs(cls, vocabulary: Vocabulary | None) -> int:
        """How many numbers the model gives for a text, one for each label; a possible one without a
        vocabulary.
        """
        return 2 if vocabulary is None else len(vocabulary.labels)

    @classmethod
    def model_arguments(
        cls, tokenizer: Vocabulary | None = None, data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return {**super().model_arguments(tokenizer, data), "classes": cls.outputs(tokenizer)}

    def max_length(self, options: Any = None) -> int | None:
        """The number of tokens that are read of a text, EOS included: the model's positions or
        ``data.max_length`` of the recipe, whichever is less; None: all.
        """
        trained = self.recipe.get("data", {}).get("max_length")
        frame = self.tokenizer.special.frame
        limits = [self.max_positions()[0], None if trained is None else trained + frame]
        return min((limit for limit in limits if limit is not None), default=None)

    def logits(self, batch: Any) -> Tensor:
        """What the model gives: ``(b c)``."""
        if self.foreign:
            shape = len(batch.tokens), self.outputs(self.tokenizer)
            return self.checked_logits(self.model(batch.tokens), "b classes", *shape)
        return self.model(batch.tokens, mask=batch.mask())  # type: ignore[no-any-return]

    def forward_batch(self, batch: Any) -> object:
        return self.logits(batch)

    def losses(self, logits: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """The loss of each text, label or word, and its weight: the mean loss is the sum of these
        losses over the sum of the weights. ``logits`` is what the model gives.
        """
        raise NotImplementedError

    def columns_of(self, logits: Tensor, batch: Any) -> Sequence[Tensor]:
        """The columns ``(b ...)`` of what ``compute_scores`` needs of each text."""
        raise NotImplementedError

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        losses, weights = self.losses(self.logits(batch), batch)
        self.log_training({}, batch.real_tokens())
        return self.summed(losses.sum(), weights.sum())

    def score(self, batch: Any) -> tuple[Any, ...]:
        logits = self.logits(batch)
        return *self.losses(logits, batch), *self.columns_of(logits, batch)


class TokenTask(Task):
    """A task whose loss is the cross entropy of tokens. A subclass writes :meth:`loss`;
    :attr:`vocabulary_size` and :meth:`frequencies` where its tokenizer is none of one vocabulary.
    """

    training_names = (*Task.training_names, "perplexity")

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens to choose from."""
        return len(self.tokenizer.tokenizer)

    @property
    def untrained_loss(self) -> float:
        return math.log(self.vocabulary_size)

    def frequencies(self, texts: Any) -> NDArray[np.int64]:
        """How often each token of the vocabulary is to be predicted in a data set: ``(v)``."""
        return np.bincount(texts.sequences.ids, minlength=self.vocabulary_size)

    def constant_loss(self, data: Any) -> float:
        found = torch.from_numpy(self.frequencies(data.sets["val"]))
        return constant_loss(found, self.optim.label_smoothing, self.tokenizer.special.unpredicted)

    def loss(self, batch: Any) -> tuple[Any, ...]:
        """The label-smoothed loss, summed over the tokens to predict; the cross entropy of each
        ``(t)``, in nats; and their number.
        """
        raise NotImplementedError

    def losses_of(self, hidden: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """What :func:`~tfzoo.learning.cross_entropy.cross_entropy` gives for the last hidden states
        ``(t d)`` of the model, which need no logits at once where it has no bias.
        """
        model, smoothing = self.model, self.optim.label_smoothing
        pad = self.tokenizer.special.unpredicted
        if model.output_bias is not None:
            return cross_entropy_of_logits(model.logits(hidden), labels, smoothing, pad)
        cap = getattr(model, "logit_cap", None)
        return cross_entropy(hidden, model.output_weight, labels, smoothing, pad, cap)

    def losses_of_logits(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """:meth:`losses_of`, from logits ``(t v)``."""
        pad = self.tokenizer.special.unpredicted
        return cross_entropy_of_logits(logits, labels, self.optim.label_smoothing, pad)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss, nll, tokens = self.loss(batch)
        self.log_training({"train/perplexity": nll.mean().exp()}, tokens)
        return self.summed(loss, tokens)


class DocumentTask(TokenTask):
    """A task whose model maps ``tokens`` ``(b n)`` to logits ``(b n v)`` of the vocabulary, and
    whose data module has a ``vocabulary`` without labels.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "data": {
            "dataset": {"name": "agreement", "train": 64, "val": 16, "test": 16},
            "tokenizer": {"name": "word", "cut": "spaces"},
            "max_length": 64,
            "max_tokens": 256,
        }
    }
    tokenizer: Vocabulary

    def max_positions(self) -> tuple[int | None, int | None]:
        # Of a document and of a row: a long document is read in parts.
        return None, getattr(self.model, "max_positions", None)

    def rows(self, batch: Any) -> list[dict[str, Any]]:
        """Each document with its own scores, if it has a token to predict."""
        _, _, *columns = self.score(batch)
        each = [self.compute_scores(*one) for one in zip(*columns, strict=True)]
        return [
            {"text": text} | {name: float(one) for name, one in scores.items() if one == one}
            for text, scores in zip(batch.source_text, each, strict=True)
        ]

    def foreign_logits(self, tokens: Tensor, places: Tensor) -> Tensor:
        """The logits that a model of another class than tfzoo's gives at ``places`` ``(t)`` of
        ``tokens.flatten()``: ``(b n), (t) -> (t v)``.
        """
        shape = *tokens.shape, self.vocabulary_size
        logits = self.checked_logits(self.model(tokens), "b n v", *shape)
        return logits.flatten(0, 1).index_select(0, places)
