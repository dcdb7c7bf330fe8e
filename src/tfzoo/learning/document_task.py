"""Tasks over documents: the model gives logits of the vocabulary at places of a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from tfzoo.data.classification_batch import Vocabulary
from tfzoo.learning import foreign
from tfzoo.learning.task import PLACEHOLDER_SIZE, Task


class DocumentTask(Task):
    """A task whose model maps ``tokens`` ``(b n)`` to logits ``(b n v)`` of the vocabulary, and
    whose data module has a ``vocabulary`` without labels.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "data": {
            "dataset": {"name": "agreement", "train": 64, "val": 16, "test": 16},
            "tokenizer": {"name": "word", "cut": "spaces"},
            "max_length": 64,
            "max_tokens": 256,
        },
    }
    tokenizer_of_data = "vocabulary"
    training_names = (*Task.training_names, "perplexity")
    model: Any
    tokenizer: Vocabulary

    @property
    def untrained_loss(self) -> float:
        return math.log(len(self.tokenizer.tokenizer))

    @classmethod
    def model_arguments(
        cls, tokenizer: Vocabulary | None = None, data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        size = PLACEHOLDER_SIZE if tokenizer is None else len(tokenizer.tokenizer)
        return {"vocab_size": size}

    @classmethod
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> Vocabulary:
        return Vocabulary.restore(state)

    def max_positions(self) -> tuple[int | None, int | None]:
        # Of a document and of a row: a long document is read in parts.
        return None, getattr(self.model, "max_positions", None)

    def foreign_logits(self, tokens: Tensor, places: Tensor) -> Tensor:
        """The logits that a model of another class than tfzoo's gives at ``places`` ``(t)`` of
        ``tokens.flatten()``: ``(b n), (t) -> (t v)``.
        """
        shape = (*tokens.shape, len(self.tokenizer.tokenizer))
        logits = foreign.check_logits(self.model, self.model(tokens), shape, "b n v")
        return logits.flatten(0, 1).index_select(0, places)
