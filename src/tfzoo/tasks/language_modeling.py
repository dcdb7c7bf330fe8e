"""Causal language modelling: the probability of each token given those before it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.data.batches import row_lengths
from tfzoo.data.documents import DocumentBatch, DocumentData, prompt_batches
from tfzoo.errors import BadOption
from tfzoo.learning.lines import Tokens, token_strings
from tfzoo.learning.published import generation_settings
from tfzoo.learning.scoring import sums_by
from tfzoo.learning.text_task import DocumentTask
from tfzoo.models.generation import check_options, generate
from tfzoo.models.initialise import seed_of
from tfzoo.models.language_model import LanguageModel

NEW_TOKENS = 64
"""The most tokens of a continuation by default."""


@dataclass(frozen=True)
class Continue:
    """How a text is continued.

    Args:
        max_new_tokens: the most tokens that are appended; by default 64, or half of the model's
            positions where these are fewer.
        temperature: divides the logits; 0: the most probable token.
        top_k: sample from so many most probable tokens.
        top_p: sample from the fewest tokens of this probability together (:func:`tfzoo.generate`).
        stop: a text that ends the continuation, and is no part of it.
        seed: of sampling.
        beam: number of hypotheses of beam search; 1: none.
        length_penalty: alpha of the score of a hypothesis (:class:`tfzoo.Search`).

    Raises:
        BadOption: a number out of its range, or without effect; an empty ``stop``.
    """

    max_new_tokens: int | None = None
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    stop: str | None = None
    seed: int = 0
    beam: int = 1
    length_penalty: float = 0.6

    def __post_init__(self) -> None:
        most = NEW_TOKENS if self.max_new_tokens is None else self.max_new_tokens
        sampling = self.temperature, self.top_k, self.top_p
        check_options(most, *sampling, self.beam, self.length_penalty)
        check_range("seed", self.seed, ge=0, lt=2**63, whole=True)
        if self.seed and not self.temperature:
            raise BadOption("seed is of what is sampled: set temperature over 0")
        if self.stop == "":
            raise BadOption("stop is an empty text, which would end every continuation at once")


@dataclass
class LanguageModelingAnswer:
    """The most probable continuation of a text, and whether only its last tokens were read because
    it is longer than the model reads.
    """

    continuation: str
    truncated: bool = False


@register("task", "language_modeling")
class LanguageModelingTask(DocumentTask):
    """Training, evaluation and inference of a model that gives the probability of the next token.

    A batch is a :class:`~tfzoo.data.documents.DocumentBatch`.

    Args:
        model: a :class:`~tfzoo.LanguageModel` with the tokenizer's vocabulary size, or any module
            that maps ``tokens`` ``(b n)``, padded on the right, to logits ``(b n v)`` of the next
            token. One of another class than tfzoo's takes ``data.packed: false`` and continues no
            texts.
        tokenizer: ``DocumentData.vocabulary``: the tokenizer; it has no labels.
    """

    Model: ClassVar[type[nn.Module]] = LanguageModel
    Data = DocumentData
    Batch = DocumentBatch
    line_batches = staticmethod(prompt_batches)
    about = "what follows each line of text"
    Answer = LanguageModelingAnswer
    Options = Continue
    published = "LanguageModel"
    monitor = "val/loss"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "perplexity": False,
        "bits_per_byte": False,
    }

    def check(self, data: Any) -> None:
        """As :meth:`Task.check`; also a BadOption where rows of training are packed, and a part of
        the model would let documents see each other.
        """
        super().check(data)
        if not getattr(data, "packed", False):
            return
        reads = None if self.foreign else self.model.decoder
        if reads is None or not reads.takes_any_mask or reads.leaky_norm is not None:
            what = self.foreign or "a part of this model"
            raise BadOption(
                f"{what} reads no mask that keeps documents in one row apart: set data.packed to "
                "false, so that each has its own row"
            )

    @classmethod
    def complete(cls, found: dict[str, Any], folder: Path) -> None:
        generation_settings(folder)

    def hidden(self, batch: DocumentBatch) -> Tensor:
        """The last hidden state of each token that is no padding: ``(t d)``."""
        hidden = self.model.hidden(
            batch.tokens,
            mask=batch.mask(),
            positions=None if batch.part is None else batch.positions,
        )
        return hidden.flatten(0, 1).index_select(0, batch.non_padding)  # type: ignore[no-any-return]

    def logits(self, batch: DocumentBatch) -> Tensor:
        """The logits of each of ``batch.labels``: ``(t v)``."""
        if not self.foreign:
            return self.model.logits(self.hidden(batch))  # type: ignore[no-any-return]
        return self.foreign_logits(batch.tokens, batch.non_padding)

    def loss(self, batch: DocumentBatch) -> tuple[Tensor, Tensor, int]:
        if self.foreign:
            return *self.losses_of_logits(self.logits(batch), batch.labels), len(batch.labels)
        return *self.losses_of(self.hidden(batch), batch.labels), len(batch.labels)

    def score(self, batch: DocumentBatch) -> tuple[Any, ...]:
        loss, nll, tokens = self.loss(batch)
        sums = sums_by(batch.owner, len(batch.index), nll, torch.ones_like(nll))
        return loss, tokens, *sums, torch.tensor([*map(size_of, batch.source_text)])

    def compute_scores(self, nll: Tensor, tokens: Tensor, size: Tensor) -> dict[str, Tensor]:
        """``perplexity``, ``exp`` of the mean cross entropy of a token; and ``bits_per_byte``, the
        sum of all cross entropies in bits over the bytes of the documents in UTF-8, each with its
        line end, which EOS stands for. The ``loss`` is the mean of a token in nats.
        """
        bits = nll.sum() / math.log(2)
        return {"perplexity": (nll.sum() / tokens.sum()).exp(), "bits_per_byte": bits / size.sum()}

    def frequencies(self, texts: Any) -> NDArray[np.int64]:
        found = super().frequencies(texts)
        found[self.tokenizer.special.eos] = texts.documents
        return found

    def max_length(self, options: Continue | None = None) -> int | None:
        limit = self.max_positions()[1]
        if options is not None and self.foreign:
            raise BadOption(f"{self.foreign}, which is not tfzoo's, continues no texts")
        if limit is None or options is None:
            return limit
        new = self.new_tokens(options)
        if new > limit:
            raise BadOption(f"max_new_tokens {new:,}, but the model has {limit:,} positions")
        return limit - new + 1

    def new_tokens(self, options: Continue) -> int:
        """The most tokens of a continuation."""
        limit = self.max_positions()[1] or 2 * NEW_TOKENS
        return options.max_new_tokens or min(NEW_TOKENS, max(limit // 2, 1))

    def answers_of(
        self, batch: DocumentBatch, options: Continue | None = None
    ) -> list[LanguageModelingAnswer]:
        chosen, special = options or Continue(), self.tokenizer.special
        seed = seed_of(chosen.seed, "continue", *batch.index)
        new = generate(
            self.model,
            batch.tokens,
            self.new_tokens(chosen),
            mask=batch.mask(),
            temperature=chosen.temperature,
            top_k=chosen.top_k,
            top_p=chosen.top_p,
            stop=special.ends,
            pad=special.pad,
            generator=torch.Generator(self.device).manual_seed(seed),
            beam=chosen.beam,
            length_penalty=chosen.length_penalty,
        ).tolist()
        lengths = row_lengths(batch.tokens, batch.lengths)
        read = [row[:n] for row, n in zip(batch.tokens.tolist(), lengths, strict=True)]
        decode = self.tokenizer.tokenizer.decode
        before, after = decode(read), decode([a + b for a, b in zip(read, new, strict=True)])
        texts = [added(*pair) for pair in zip(before, after, strict=True)]
        stop = chosen.stop
        return [LanguageModelingAnswer(text.split(stop)[0] if stop else text) for text in texts]

    def answer_with_tokens(self, batch: DocumentBatch, tokens: Tokens) -> LanguageModelingAnswer:
        read = token_strings(self.tokenizer.tokenizer, batch.tokens[0].tolist())
        tokens["decoder"] = read, read
        (answer,) = self.predict(batch.source_text, on_truncated=lambda *_: None)
        self.hidden(batch)
        return answer  # type: ignore[no-any-return]


def added(before: str, after: str) -> str:
    """What a longer text has that a shorter one does not. A character of several tokens may begin
    in ``before``, where it is decoded to another one.
    """
    pairs = zip(before, after, strict=False)
    return after[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) :]


def size_of(document: str) -> int:
    """The bytes of a document in UTF-8, with its line end."""
    return len(document.encode()) + 1
