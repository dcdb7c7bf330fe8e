"""Masked language modelling: the tokens of a text that are masked, given all others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tfzoo.base.registry import register
from tfzoo.data.documents import MaskedBatch, MaskedData, filled, text_with_masks_batches
from tfzoo.data.tokenizer import token_texts
from tfzoo.learning.scoring import sums_by
from tfzoo.learning.text_task import DocumentTask
from tfzoo.models.masked_language_model import MaskedLanguageModel

SHOWN = 5
"""The most probable tokens of which an answer has the probability."""


@dataclass
class MaskedLanguageModelingAnswer:
    """A text with the most probable token in place of each ``[MASK]``, the most probable tokens of
    each with their probabilities, and whether the end of the text was not read because it is longer
    than the model reads. What is masked after the end of what is read stays ``[MASK]``.
    """

    filled: str
    masks: list[dict[str, float]]
    truncated: bool = False


@register("task", "masked_language_modeling")
class MaskedLanguageModelingTask(DocumentTask):
    """Training, evaluation and inference of a model that finds masked tokens (Devlin et al. 2019).

    A batch is a :class:`~tfzoo.data.documents.MaskedBatch`.

    Args:
        model: a :class:`~tfzoo.MaskedLanguageModel` with the tokenizer's vocabulary size, or any
            module that maps ``tokens`` ``(b n)``, padded on the right, to logits ``(b n v)`` of the
            token at each place.
        tokenizer: ``MaskedData.vocabulary``: the tokenizer; it has no labels.
    """

    Model: ClassVar[type[nn.Module]] = MaskedLanguageModel
    Data = MaskedData
    Batch = MaskedBatch
    line_batches = staticmethod(text_with_masks_batches)
    about = "each line of text with the most probable token in place of each [MASK]"
    input_hint = "Write [MASK] for each token to find."
    Answer = MaskedLanguageModelingAnswer
    shares = "accuracy"
    published = "MaskedLanguageModel"
    monitor = "val/loss"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "perplexity": False,
        "accuracy": True,
    }

    def logits(self, batch: MaskedBatch) -> Tensor:
        """The logits of each token to find: ``(t v)``."""
        if not self.foreign:
            hidden = self.model.hidden(batch.tokens, mask=batch.mask(), read=batch.places)
            return self.model.logits(hidden)  # type: ignore[no-any-return]
        return self.foreign_logits(batch.tokens, batch.places)

    def loss(self, batch: MaskedBatch) -> tuple[Tensor, Tensor, Tensor, int]:
        """The label-smoothed loss, summed over the tokens to find; the cross entropy of each, in
        nats, and whether the most probable token is right, ``(t)``; and their number.
        """
        logits = self.logits(batch)
        loss, nll = self.losses_of_logits(logits, batch.labels)
        return loss, nll, logits.argmax(-1) == batch.labels, len(batch.labels)

    def training_step(self, batch: MaskedBatch, batch_idx: int) -> Tensor:
        loss, nll, _, tokens = self.loss(batch)
        read = batch.real_tokens()
        self.log_training({"train/perplexity": (nll.sum() / max(tokens, 1)).exp()}, read)
        return self.summed(loss, tokens)

    def score(self, batch: MaskedBatch) -> tuple[Any, ...]:
        loss, nll, right, tokens = self.loss(batch)
        columns = sums_by(batch.owner, len(batch.index), nll, right, torch.ones_like(nll))
        return loss, tokens, *columns

    def compute_scores(self, nll: Tensor, right: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """Over the tokens to find: ``perplexity``, ``exp`` of the mean cross entropy; and
        ``accuracy``, the share of tokens that are the most probable one. The ``loss`` is their mean
        in nats.
        """
        every = tokens.sum()
        return {"perplexity": (nll.sum() / every).exp(), "accuracy": right.sum() / every}

    def answers_of(
        self, batch: MaskedBatch, options: Any = None
    ) -> list[MaskedLanguageModelingAnswer]:
        logits = self.logits(batch)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
        logits[:, list(self.tokenizer.special.every)] = float("-inf")
        ids = logits.topk(min(SHOWN, logits.shape[-1])).indices
        top = logits.softmax(-1).gather(-1, ids)
        tokenizer = self.tokenizer.tokenizer
        masks: list[list[dict[str, float]]] = [[] for _ in batch.index]
        for row, p, each in zip(batch.owner.tolist(), top.tolist(), ids.tolist(), strict=True):
            words = (text.strip() or text for text in token_texts(tokenizer, each))
            best: dict[str, float] = {}
            for word, one in zip(words, p, strict=True):
                best.setdefault(word, one)
            masks[row].append(best)
        return [
            MaskedLanguageModelingAnswer(filled(text, [next(iter(one)) for one in found]), found)
            for text, found in zip(batch.source_text, masks, strict=True)
        ]
