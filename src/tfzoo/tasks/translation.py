"""Translation: a text in another language for each text."""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tfzoo.base import adapters
from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.data.batches import ParallelBatch, row_lengths, translation_batches
from tfzoo.data.tokenizer import TokenizerPair
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadOption
from tfzoo.learning.lines import Tokens, token_strings
from tfzoo.learning.persistence import PLACEHOLDER_SIZE
from tfzoo.learning.published import generation_settings
from tfzoo.learning.scoring import sums_by
from tfzoo.learning.settings import Settings
from tfzoo.learning.text_task import TokenTask
from tfzoo.models.transformer import Transformer
from tfzoo.search import Search, missing_for_decoding, search

LANGUAGES = ("source", "target")
"""What the languages of a published model are called, which its folder does not say."""

TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}
"""sacreBLEU's tokenizer by ISO 639 code of the target language; ``13a`` for all others."""

MIN_WORDS = 4
"""The minimum mean length of references for BLEU: the length of its longest n-grams."""


@dataclass
class Translation:
    """A translation, its log probability divided by the length penalty, and whether the text was
    truncated because it is longer than the model reads.
    """

    translation: str
    score: float
    truncated: bool = False


@dataclass(frozen=True)
class Translate:
    """How texts are translated.

    Args:
        beam: hypotheses kept at a time; 1 is greedy; by default the recipe's, or ``n_best`` where
            that is more.
        length_penalty: alpha of the length penalty; by default the recipe's.
        n_best: translations of each text, at most as many as the beam. Hypotheses with the same
            text are one translation, so that there may be fewer.

    Raises:
        BadOption: a number out of its range.
    """

    beam: int | None = None
    length_penalty: float | None = None
    n_best: int = 1

    def __post_init__(self) -> None:
        check_range("n_best", self.n_best, ge=1, whole=True)
        check_range("beam", self.beam, ge=1, whole=True, optional=True)

    def search(self, default: Search) -> Search:
        """The options of decoding, with what is not given of a recipe's."""
        beam = self.beam or max(self.n_best, default.beam)
        penalty = default.length_penalty if self.length_penalty is None else self.length_penalty
        return replace(default, beam=beam, n_best=self.n_best, length_penalty=penalty)


@cache
def metrics_of(language: str) -> tuple[Any, Any]:
    """sacreBLEU's BLEU and chrF for a target language, with or without script and region:
    ``zh-CN``, ``zh_TW``, ``zho_Hans``.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    code = re.split("[-_]", language.strip().lower(), maxsplit=1)[0]
    return BLEU(tokenize=TOKENIZERS.get(code, "13a")), CHRF()


def line_counts(
    language: str, hypotheses: Sequence[str], references: Sequence[str]
) -> tuple[Tensor, Tensor, Tensor]:
    """What BLEU and chrF count in each line, and whether it equals its reference: ``(b 10), (b 18),
    (b)``.
    """
    bleu, chrf = (
        torch.tensor(adapters.line_statistics(metric, hypotheses, references), dtype=torch.int64)
        for metric in metrics_of(language)
    )
    exact = [h == r for h, r in zip(hypotheses, references, strict=True)]
    return bleu, chrf, torch.tensor(exact)


def corpus_scores(language: str, bleu: Tensor, chrf: Tensor, exact: Tensor) -> dict[str, Tensor]:
    """BLEU and chrF of detokenised text (Papineni et al. 2002; Popovic 2015), with the values that
    the command ``sacrebleu`` computes, of what :func:`line_counts` counts: ``chrf``, which lines
    are an ``exact_match`` and ``bleu``, a geometric mean of the precisions of 1- to 4-grams. It is
    not computed for references of fewer than 4 words on average, as they have few 4-grams or none.
    """
    values = [
        torch.tensor(adapters.score_of_statistics(metric, counts.sum(0).tolist()))
        for metric, counts in zip(metrics_of(language), (bleu, chrf), strict=True)
    ]
    found = {"chrf": values[1], "exact_match": exact}
    return {"bleu": values[0], **found} if words_in(bleu) >= MIN_WORDS else found


def words_in(bleu: Tensor) -> float:
    """The mean number of words of a reference, as sacreBLEU's tokenizer counts them."""
    return float(bleu[:, 1].double().mean())


def mean_words(references: Sequence[str], language: str) -> float:
    """The mean number of words of references; see :func:`words_in`."""
    return words_in(line_counts(language, references, references)[0])


@dataclass(kw_only=True)
class TranslationSettings(Settings):
    """The settings of a translator."""

    search: Search = field(default_factory=Search)


@register("task", "translation")
class TranslationTask(TokenTask):
    """Training, evaluation and inference of a model that translates.

    A batch is a :class:`~tfzoo.ParallelBatch`: ``source`` ``(b k)`` and ``target`` ``(b n)``, int64
    ids that end with EOS and are padded on the right, the target begins with BOS;
    ``non_padding`` ``(t)``, int64, the places in ``target[:, 1:].flatten()`` that are no padding;
    ``source_lengths``, ``target_lengths``, how many tokens of each row are real, None where no row
    is padded; ``index``, the row of each pair in its data set; ``source_text``, ``target_text``, []
    in training.

    Args:
        model: a :class:`~tfzoo.Transformer` with the tokenizer's vocabulary sizes, or any module
            that maps source ids ``(b k)`` and target ids ``(b q)`` to logits ``(b q v)`` of the
            next token. One without the methods of :class:`tfzoo.search.Decodable` cannot
            translate, and is scored by loss and perplexity alone.
        tokenizer: ``TranslationData.tokenizers``.
        search: beam size and length penalty; validation and test use them with ``n_best=1``.
    """

    Model: ClassVar[type[nn.Module]] = Transformer
    Data = TranslationData
    Batch = ParallelBatch
    line_batches = staticmethod(translation_batches)
    example: ClassVar[Mapping[str, Any]] = {
        "data": {"dataset": {"name": "numbers", "train": 100, "val": 16, "test": 16}}
    }
    tokenizer_of_data = "tokenizers"
    about = "a translation of each line of text"
    Answer = Translation
    Options = Translate
    percentages = "exact_match"
    published = "Transformer"
    monitor = "val/chrf"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "perplexity": False,
        "bleu": True,
        "chrf": True,
        "exact_match": True,
    }
    Settings = TranslationSettings
    search: Search
    model: Any
    tokenizer: TokenizerPair

    def __init__(self, model: nn.Module, tokenizer: TokenizerPair, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        missing = missing_for_decoding(model)
        self.decodes = not missing
        if missing:
            warnings.warn(
                f"{self.foreign} has no {', '.join(missing)}: it cannot decode and is scored by "
                "loss and perplexity alone (tfzoo.search.Decodable)",
                stacklevel=2,
            )

    @property
    def vocabulary_size(self) -> int:
        return len(self.tokenizer.target)

    def frequencies(self, texts: Any) -> NDArray[np.int64]:
        special = self.tokenizer.special
        found = np.bincount(texts.target.ids, minlength=self.vocabulary_size)
        found[[*special.before_target[1:], special.eos]] += len(texts)
        return found

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

    @classmethod
    def complete(cls, found: dict[str, Any], folder: Path) -> None:
        kept = found["tfzoo"]
        spec, state = (kept["tokenizer"][key] for key in ("tokenizer", "state"))
        state_of_pair = {"languages": [*LANGUAGES], "tokenizer": spec, "states": [state]}
        kept["tokenizer"] = TokenizerPair.restore(state_of_pair).state()
        beams = generation_settings(folder).get("num_beams")
        kept["recipe"]["search"] = {"beam": beams} if isinstance(beams, int) and beams > 0 else {}

    def loss(self, batch: ParallelBatch) -> tuple[Tensor, Tensor, int]:
        inputs, labels = batch.target[:, :-1], batch.target[:, 1:].flatten()
        labels = labels.index_select(0, batch.non_padding)
        if self.foreign:
            shape, logits = (*inputs.shape, self.vocabulary_size), self.model(batch.source, inputs)
            logits = self.checked_logits(logits, "b q v", *shape).flatten(0, 1)
            logits = logits.index_select(0, batch.non_padding)
            return *self.losses_of_logits(logits, labels), len(labels)
        hidden = self.model.hidden(
            batch.source, inputs, source_mask=batch.source_mask(), target_mask=batch.target_mask()
        )
        # Logits are computed at non-padding tokens only.
        hidden = hidden.flatten(0, 1).index_select(0, batch.non_padding)
        return *self.losses_of(hidden, labels), len(labels)

    def check(self, data: Any) -> None:
        """As :meth:`Task.check`; also a BadOption where a callback monitors ``val/bleu``, and the
        references are too short for BLEU.
        """
        super().check(data)
        callbacks = getattr(adapters.trainer_of(self), "callbacks", [])
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

    def max_length(self, options: Any = None) -> int | None:
        return self.max_positions()[0]

    def score(self, batch: ParallelBatch) -> tuple[Any, ...]:
        smoothed, nll, tokens = self.loss(batch)
        row = batch.non_padding // (batch.target.shape[1] - 1)
        columns = sums_by(row, len(batch.index), nll, torch.ones_like(nll))
        if not self.decodes:
            return smoothed, tokens, *columns
        texts = [best.translation for best in self.answers_of(batch)]
        counts = line_counts(self.tokenizer.target_language, texts, batch.target_text)
        return smoothed, tokens, *columns, *counts

    def compute_scores(self, nll: Tensor, tokens: Tensor, *counts: Tensor) -> dict[str, Tensor]:
        """``perplexity`` per token and, if texts are decoded, :func:`corpus_scores`."""
        found = corpus_scores(self.tokenizer.target_language, *counts) if counts else {}
        return {"perplexity": (nll.sum() / tokens.sum()).exp(), **found}

    def translate(self, lines: Iterable[str], **options: Any) -> list[str]:
        """The best translation of each line, in order; arguments and errors are those of
        :meth:`predict`.
        """
        return [best.translation for best in self.predict(lines, **options)]

    def answer_with_tokens(self, batch: ParallelBatch, tokens: Tokens) -> Translation:
        source, tokenizer, special = batch.source, self.tokenizer, self.tokenizer.special
        ((best,),) = search(self.model, source, replace(self.search, n_best=1), special=special)
        # A translation that reached its limit ends with a token that the decoder has not read.
        read = [special.start, *(best.ids if best.finished else best.ids[:-1])]
        self.model.hidden(source, torch.tensor([read], device=source.device))
        inputs = token_strings(tokenizer.source, source[0].tolist())
        outputs = token_strings(tokenizer.target, read)
        tokens |= {
            "encoder": (inputs, inputs),
            "decoder": (outputs, outputs),
            "cross": (outputs, inputs),
        }
        (translation,) = tokenizer.target.decode([best.ids])
        return Translation(translation, best.score)

    def answers_of(self, batch: ParallelBatch, options: Translate | None = None) -> list[Any]:
        wanted = (options or Translate()).search(self.search)
        every = wanted if wanted.n_best == 1 else replace(wanted, n_best=wanted.beam)
        special, mask = self.tokenizer.special, batch.source_mask()
        found = search(self.model, batch.source, every, special=special, mask=mask)
        ids = [hypothesis.ids for hypotheses in found for hypothesis in hypotheses]
        texts = iter(self.tokenizer.target.decode(ids))
        each = []
        lengths = row_lengths(batch.source, batch.source_lengths)
        for hypotheses, length in zip(found, lengths, strict=True):
            distinct: dict[str, Translation] = {}
            for hypothesis in hypotheses:
                text = next(texts)
                distinct.setdefault(text, Translation(text, hypothesis.score))
            nothing = length == special.frame
            best = [Translation("", 0.0)] if nothing else [*distinct.values()]
            each.append(best[: wanted.n_best])
        return each if wanted.n_best > 1 else [best for best, *_ in each]

    def references(self, batch: ParallelBatch) -> list[str]:
        return batch.target_text
