"""The translation task: model, loss, scores, and inference."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tfzoo import _adapters
from tfzoo.data.inference_batches import OnTruncated, translation_batches
from tfzoo.data.parallel_batch import ParallelBatch
from tfzoo.data.tokenizer import TokenizerPair
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadOption
from tfzoo.models.transformer import Transformer
from tfzoo.runs import memory
from tfzoo.search import Search, search
from tfzoo.special_ids import EOS, PAD
from tfzoo.tasks import foreign
from tfzoo.tasks.attention import translation_attention
from tfzoo.tasks.compute import Compute
from tfzoo.tasks.cross_entropy import cross_entropy, cross_entropy_of_logits
from tfzoo.tasks.evaluation import rows_of
from tfzoo.tasks.optim import Optim
from tfzoo.tasks.task import PLACEHOLDER_SIZE, Task
from tfzoo.tasks.translation_scores import MIN_WORDS, TranslationScores, mean_words

COUNTED_BEAM = 100
"""The largest beam whose memory is not counted before it is taken."""


@dataclass(frozen=True)
class Translation:
    """A translation and its score, the log probability divided by the length penalty."""

    text: str
    score: float


class TranslationTask(Task):
    """Training, evaluation and inference of a model that translates.

    A batch is a :class:`~tfzoo.ParallelBatch`: ``source`` ``(b k)`` and ``target`` ``(b n)``, int64
    ids that end with EOS and are padded on the right with 0, the target begins with BOS;
    ``non_padding`` ``(t)``, int64, the places in ``target[:, 1:].flatten()`` that are no padding;
    ``source_padding``, ``target_padding``, whether any row is padded; ``index``, the row of each
    pair in its data set; ``source_text``, ``target_text``, [] in training.

    Args:
        model: a :class:`~tfzoo.Transformer` with the tokenizer's vocabulary sizes, or any module
            that maps source ids ``(b k)`` and target ids ``(b q)`` to logits ``(b q v)`` of the
            next token. One without the methods of :class:`tfzoo.search.Decodable` cannot
            translate, and is scored by loss and perplexity alone.
        tokenizer: ``TranslationData.tokenizers``.
        optim: learning rate, schedule and label smoothing.
        search: beam size and length penalty; validation and test use them with ``n_best=1``.
        compute: compilation of layers, activation checkpointing.
        seed: the random state of each training batch is derived from it.
    """

    name: ClassVar[str] = "translation"
    Model: ClassVar[type[nn.Module]] = Transformer
    Data = TranslationData
    tokenizer_of_data = "tokenizers"
    command = "translate"
    pipeline_tag = "translation"
    monitor = "val/chrf"
    score_names = ("loss", "perplexity", "bleu", "chrf", "exact_match")
    training_names = (*Task.training_names, "perplexity")
    attention = translation_attention
    model: Any
    tokenizer: TokenizerPair

    def __init__(
        self,
        model: nn.Module,
        tokenizer: TokenizerPair,
        *,
        optim: Optim | None = None,
        search: Search | None = None,
        compute: Compute | None = None,
        seed: int = 0,
    ) -> None:
        search = search or Search()
        super().__init__(
            model,
            tokenizer,
            {"optim": optim or Optim(), "search": search, "compute": compute or Compute()},
            seed,
        )
        self.search = search
        self.samples = 4
        """How many sentences each validation prints with their translations."""
        self.decodes = foreign.can_decode(model)
        self.sentences_at_once(search)
        self._examples: dict[int, tuple[str, str, str]] = {}

    @property
    def untrained_loss(self) -> float:
        return math.log(len(self.tokenizer.target))

    @classmethod
    def model_arguments(
        cls, tokenizer: TokenizerPair | None = None, data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        if tokenizer is None:
            return {
                "vocab_size": PLACEHOLDER_SIZE,
                "source_vocab_size": None if (data or {}).get("joint", True) else PLACEHOLDER_SIZE,
            }
        return {
            "vocab_size": len(tokenizer.target),
            "source_vocab_size": None if tokenizer.joint else len(tokenizer.source),
        }

    @classmethod
    def restore_tokenizer(cls, state: Mapping[str, Any]) -> TokenizerPair:
        return TokenizerPair.restore(state)

    def loss(self, batch: ParallelBatch) -> tuple[Tensor, Tensor, int]:
        """The label-smoothed loss and the cross entropy, each summed over non-padding target
        tokens, in nats; and the number of these tokens.
        """
        source_padding = "right" if batch.source_padding else "none"
        target_padding = "right" if batch.target_padding else "none"
        labels = batch.target[:, 1:]
        # The decoder's input has no EOS, since no token follows it. `[:, :-1]` removes that of the
        # longest sentences; in the others it becomes padding.
        inputs, labels = batch.target[:, :-1] * (labels != PAD), labels.flatten()
        labels = labels.index_select(0, batch.non_padding)
        smoothing = self.optim.label_smoothing
        if self.foreign:
            size = len(self.tokenizer.target)
            logits = foreign.token_logits(self.model, batch.source, inputs, size)
            logits = logits.flatten(0, 1).index_select(0, batch.non_padding)
            return *cross_entropy_of_logits(logits, labels, smoothing, PAD), len(labels)
        hidden = self.model.hidden(
            batch.source, inputs, source_padding=source_padding, target_padding=target_padding
        )
        # Logits are computed at non-padding tokens only.
        hidden = hidden.flatten(0, 1).index_select(0, batch.non_padding)
        loss = cross_entropy(hidden, self.model.output_weight, labels, smoothing, PAD)
        return *loss, len(labels)

    def forward_batch(self, batch: ParallelBatch) -> object:
        return self.loss(batch)

    def training_step(self, batch: ParallelBatch, batch_idx: int) -> Tensor:
        smoothed, nll, tokens = self.loss(batch)
        self.log_training({"train/perplexity": (nll / tokens).exp()}, tokens)
        return self.summed(smoothed, tokens)

    def on_validation_start(self) -> None:
        super().on_validation_start()
        self._examples = {}

    def on_validation_epoch_end(self) -> None:
        super().on_validation_epoch_end()
        self._show_examples()

    def check(self, data: Any) -> None:
        """Check that the model can read the data, and that no callback monitors ``val/bleu`` where
        the references are too short for BLEU.

        Raises:
            BadOption: as :meth:`Task.check`; or a callback monitors a BLEU that is not computed.
        """
        super().check(data)
        callbacks = getattr(_adapters.trainer_of(self), "callbacks", [])
        monitored = {getattr(callback, "monitor", None) for callback in callbacks}
        lines = getattr(getattr(data, "sets", {}).get("val"), "lines", None)
        if lines and "val/bleu" in monitored:
            words = mean_words([line for _, line in lines], self.tokenizer.target_language)
            if words < MIN_WORDS:
                raise BadOption(
                    f"val/bleu is not computed for references under {MIN_WORDS} words on average "
                    f"(here {words:.1f}); set checkpoint.monitor to val/chrf"
                )

    @classmethod
    def measures(cls, score: str, dataset: Any, split: str) -> bool:
        if score != "bleu":
            return super().measures(score, dataset, split)
        references = [target for _, target in dataset.splits(seed=0)[split]]
        return mean_words(references, dataset.languages[1]) >= MIN_WORDS

    def max_positions(self) -> tuple[int | None, int | None]:
        if self.foreign:
            return None, getattr(self.model, "max_positions", None)
        return self.model.encoder.max_positions, self.model.decoder.max_positions

    def new_scores(self) -> TranslationScores:
        return TranslationScores(self.tokenizer.target_language, self.decodes)

    def score(self, batch: ParallelBatch, scores: TranslationScores) -> None:
        smoothed, nll, tokens = self.loss(batch)
        if not self.decodes:
            scores.update([], [], smoothed, nll, tokens)
            return
        texts = self._decode(batch.source, replace(self.search, n_best=1))
        scores.update(texts, batch.target_text, smoothed, nll, tokens)
        for index, *example in zip(
            batch.index, batch.source_text, texts, batch.target_text, strict=True
        ):
            if index < self.samples:  # the same sentences in each validation
                self._examples[index] = (example[0], example[1], example[2])

    def prediction_rows(self, batch: ParallelBatch) -> list[dict[str, Any]]:
        # Not from `batch.source`: `translations` truncates texts that are too long for the model.
        options, source = replace(self.search, n_best=1), batch.source_text
        best = self.translations(source, options) if source else self._search(batch.source, options)
        columns: dict[str, Sequence[Any]] = {
            "source": source,
            "translation": [one.text for (one,) in best],
            "reference": batch.target_text,
            "score": [one.score for (one,) in best],
        }
        return rows_of(columns)

    def translate(
        self,
        lines: Iterable[str],
        search: Search | None = None,
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        max_tokens: int = 4096,
    ) -> list[str]:
        """The best translation of each line, in order. Arguments as in :meth:`translations`."""
        found = self.translations(
            lines, search, beam=beam, length_penalty=length_penalty, max_tokens=max_tokens
        )
        return [best[0].text for best in found]

    def translations(
        self,
        lines: Iterable[str],
        search: Search | None = None,
        *,
        n_best: int | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
        max_tokens: int = 4096,
        progress: Callable[[int], object] | None = None,
        on_truncated: OnTruncated | None = None,
    ) -> list[list[Translation]]:
        """The ``n_best`` translations of each line with their scores, best first::

            for best in task.translations(["twenty plus two"], n_best=3):
                print([(one.text, one.score) for one in best])

        Args:
            lines: texts. A text longer than the model's positions is truncated.
            search: options of decoding; default: those of the recipe.
            n_best, beam, length_penalty: replace those of ``search``. If ``beam`` is not given, it
                is at least ``n_best``. Hypotheses with the same text are one translation, so
                that there may be fewer.
            max_tokens: maximum number of source tokens of a batch.
            progress: called with the number of lines of each finished batch.
            on_truncated: called with the indices of truncated lines, if there are any, and the
                number of tokens that are read of each; None: a ``UserWarning`` counts them.

        Raises:
            BadOption: a number out of range.
            BadData: ``lines`` is one string.
        """
        given: dict[str, Any] = {"n_best": n_best, "beam": beam, "length_penalty": length_penalty}
        options = search or self.search
        if beam is None and n_best is not None:
            given["beam"] = max(n_best, options.beam)
        options = replace(options, **{key: one for key, one in given.items() if one is not None})
        batches = translation_batches(
            lines, self.tokenizer, max_tokens, self.max_positions()[0], on_truncated
        )
        return self.in_order(batches, lambda batch: self._search(batch.source, options), progress)

    def sentences_at_once(self, options: Search) -> int:
        """How many sentences can be decoded at a time so that their hypotheses take at most half of
        the memory. They are counted for a beam over 100 of tfzoo's own model alone.

        Raises:
            BadOption: the hypotheses of one sentence need more memory than there is.
        """
        if self.foreign or options.beam <= COUNTED_BEAM:
            return sys.maxsize
        one = options.beam * self._hypothesis_size(options)
        place = max(memory.here(), memory.gpu(), key=lambda place: place.bytes)
        if one > place.bytes:
            what = "the hypotheses of one sentence take"
            memory.refuse(f"beam={options.beam}", what, one, place, BadOption)
        return max(1, place.bytes // (2 * one))

    def _hypothesis_size(self, options: Search) -> int:
        """The bytes of the cache of a hypothesis of as many tokens as a translation of one token
        may have, and of its logits and log probabilities.
        """
        training = self.model.training
        token = torch.full((1,), EOS, device=self.device)
        try:
            with torch.no_grad():
                cache = self.model.eval().init_cache(token[None])
                sizes, logits = [], token
                for _ in range(2):
                    logits = self.model.decode_step(token, cache)
                    sizes.append(sum(layer.nbytes for layer in cache.target))
        finally:
            self.model.train(training)
        first, second = sizes
        (tokens,) = options.limits(token[None], self.model.pad, self.model.max_positions)
        return int(first + (tokens - 1) * (second - first) + 2 * logits.nbytes)

    def _search(self, source: Tensor, options: Search) -> list[list[Translation]]:
        every = options if options.n_best == 1 else replace(options, n_best=options.beam)
        model = foreign.check_decodable(self.model)
        at_once = min(len(source), self.sentences_at_once(options))
        parts = [source[i : i + at_once] for i in range(0, len(source), at_once or 1)]
        with self.throughput.timed(self.device):
            found = [best for part in parts for best in search(model, part, every)]
        self.throughput.items += sum(len(best.ids) + best.finished for best, *_ in found)
        ids = [hypothesis.ids for hypotheses in found for hypothesis in hypotheses]
        texts = iter(self.tokenizer.target.decode(ids))
        each = []
        for hypotheses in found:
            distinct: dict[str, Translation] = {}
            for hypothesis in hypotheses:
                text = next(texts)
                distinct.setdefault(text, Translation(text, hypothesis.score))
            each.append([*distinct.values()][: options.n_best])
        return each

    def _decode(self, source: Tensor, options: Search) -> list[str]:
        return [best[0].text for best in self._search(source, options)]

    def _show_examples(self) -> None:
        examples = [self._examples[index] for index in sorted(self._examples)]
        for source, translation, reference in examples:
            right = "right" if translation == reference else "wrong"
            self.print(
                f"  {source}\n    -> {translation}  ({right})"
                + ("" if right == "right" else f"\n    =  {reference}")
            )
        for logger in self.loggers if self.samples else ():
            if self.trainer.is_global_zero and hasattr(logger, "log_table"):
                rows: list[Any] = [list(row) for row in examples]
                logger.log_table(
                    "val/examples", columns=["source", "translation", "reference"], data=rows
                )
