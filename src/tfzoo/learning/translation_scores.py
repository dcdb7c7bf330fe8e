"""Corpus-level BLEU and chrF, with the values that the command ``sacrebleu`` computes.

BLEU and chrF of detokenised text (Papineni et al. 2002; Popovic 2015) are functions of sums over
lines, of what sacreBLEU counts in each. BLEU is a geometric mean of the precisions of 1- to
4-grams. It is not computed if the references have fewer than 4 words on average, because they then
have few or no 4-grams.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tfzoo.base import adapters

TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
"""sacreBLEU's tokenizer by target language; ``13a`` for all others."""
THREE_LETTERS = {"zho": "zh", "chi": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko"}
"""ISO 639 codes of three letters, for the languages of these tokenizers."""

MIN_WORDS = 4
"""The minimum mean length of references for BLEU: the length of its longest n-grams."""


@cache
def metrics_of(language: str) -> tuple[Any, Any]:
    """sacreBLEU's BLEU and chrF for a target language."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return BLEU(tokenize=TOKENIZERS.get(base_language(language), "13a")), CHRF()


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
    """``chrf``, which lines are an ``exact_match`` and, for references of 4 words or more on
    average, ``bleu``, of what :func:`line_counts` counts; BLEU and chrF from 0 to 100.
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


def base_language(code: str) -> str:
    """The language of a code, without script and region: ``zh`` for ``zh-CN``, ``zh_TW``, ``ZH``,
    ``zho_Hans``.

    >>> [base_language(code) for code in ("zh-CN", "zh_TW", "ZH", "zho_Hans", "pt-BR")]
    ['zh', 'zh', 'zh', 'zh', 'pt']
    """
    language = re.split("[-_]", code.strip().lower(), maxsplit=1)[0]
    return THREE_LETTERS.get(language, language)
