"""Corpus-level BLEU and chrF, with the values that the command ``sacrebleu`` computes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from tfzoo.base import adapters
from tfzoo.learning.resampling import RowScores
from tfzoo.learning.statistics import Mean

TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
"""sacreBLEU's tokenizer by target language; ``13a`` for all others."""
THREE_LETTERS = {"zho": "zh", "chi": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko"}
"""ISO 639 codes of three letters, for the languages of these tokenizers."""

MIN_WORDS = 4
"""The minimum mean length of references for BLEU: the length of its longest n-grams."""


class CorpusScores(Metric, RowScores):
    """BLEU and chrF of detokenised text (Papineni et al. 2002; Popovic 2015), and the percentage of
    lines that equal their reference.

    The states are sums of sacreBLEU's sufficient statistics over batches and processes, so that the
    scores are those of the whole corpus. BLEU is a geometric mean of the precisions of 1- to
    4-grams. It is not computed if the references have fewer than 4 words on average, because they
    then have few or no 4-grams.

    >>> scores = CorpusScores("de")
    >>> scores.update(["eins zwei drei vier"], ["eins zwei drei vier"])
    >>> {name: round(float(value), 1) for name, value in scores.compute().items()}
    {'bleu': 100.0, 'chrf': 100.0, 'exact_match': 100.0}
    """

    full_state_update = False
    bleu_sums: Tensor
    chrf_sums: Tensor
    exact_matches: Tensor
    lines: Tensor

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language
        shapes = {"bleu_sums": (10,), "chrf_sums": (18,), "exact_matches": (), "lines": ()}
        for name, shape in shapes.items():
            self.add_state(name, torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")

    @cached_property
    def _scorers(self) -> tuple[Any, Any]:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF

        return BLEU(tokenize=TOKENIZERS.get(base_language(self.language), "13a")), CHRF()

    @property
    def signature(self) -> str:
        """sacreBLEU's signature: its version and the options of BLEU."""
        bleu, _ = self._scorers
        bleu.num_refs = 1
        return str(bleu.get_signature())

    def update(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Add lines, with one reference for each."""
        if not hypotheses:
            return
        statistics = [
            adapters.line_statistics(scorer, hypotheses, references) for scorer in self._scorers
        ]
        exact = [h == r for h, r in zip(hypotheses, references, strict=True)]
        columns = [torch.tensor(one, dtype=torch.int64) for one in (*statistics, exact)]
        self.record(*(one.to(self.device) for one in columns))

    def add(self, *columns: Tensor) -> None:
        bleu, chrf, exact = columns
        self.bleu_sums += bleu.sum(0)
        self.chrf_sums += chrf.sum(0)
        self.exact_matches += exact.sum()
        self.lines += len(exact)

    def compute(self) -> dict[str, Tensor]:
        """``chrf``, ``exact_match`` and, for references of 4 words or more on average, ``bleu``:
        each from 0 to 100.
        """
        bleu, chrf = (
            adapters.score_of_statistics(scorer, sums.tolist())
            for scorer, sums in zip(self._scorers, (self.bleu_sums, self.chrf_sums), strict=True)
        )
        exact_match = 100 * self.exact_matches / self.lines.clamp(min=1)
        scores = {"chrf": torch.tensor(chrf), "exact_match": exact_match}
        return {"bleu": torch.tensor(bleu), **scores} if self.words >= MIN_WORDS else scores

    @property
    def words(self) -> float:
        """The mean number of words of a reference, as sacreBLEU's tokenizer counts them."""
        return float(self.bleu_sums[1] / self.lines.clamp(min=1))


def mean_words(references: Sequence[str], language: str) -> float:
    """The mean number of words of references; see :attr:`CorpusScores.words`."""
    scores = CorpusScores(language)
    scores.update(references, references)
    return scores.words


class TranslationScores(nn.Module):
    """The scores of one data set: loss and perplexity per token and, if texts are decoded,
    :class:`CorpusScores`.
    """

    def __init__(self, language: str, decodes: bool = True) -> None:
        super().__init__()
        self.decodes = decodes
        self.text = CorpusScores(language)
        self.loss, self.nll = Mean(), Mean()

    def update(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        loss: Tensor,
        nll: Tensor,
        tokens: int,
    ) -> None:
        """Add a batch: lines, and loss and cross entropy, each summed over tokens, in nats."""
        self.text.update(hypotheses, references)
        self.loss.update(loss, tokens)
        self.nll.update(nll, tokens)

    def compute(self) -> dict[str, Tensor]:
        """``loss``, ``perplexity`` and the scores of the texts, over all processes."""
        return {
            "loss": self.loss.compute(),
            "perplexity": self.nll.compute().exp(),
            **(self.text.compute() if self.decodes else {}),
        }


def base_language(code: str) -> str:
    """The language of a code, without script and region: ``zh`` for ``zh-CN``, ``zh_TW``, ``ZH``,
    ``zho_Hans``.

    >>> [base_language(code) for code in ("zh-CN", "zh_TW", "ZH", "zho_Hans", "pt-BR")]
    ['zh', 'zh', 'zh', 'zh', 'pt']
    """
    language = re.split("[-_]", code.strip().lower(), maxsplit=1)[0]
    return THREE_LETTERS.get(language, language)
