"""Batches of the lines that a trained model translates or classifies."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.classification_batch import ClassificationBatch, ClassificationDataset, Vocabulary
from tfzoo.data.encoded import Sentences
from tfzoo.data.length_bucketed_sampler import LengthBucketedSampler
from tfzoo.data.pairs import pair_lines, truncate
from tfzoo.data.parallel_batch import ParallelBatch, ParallelDataset, checked_lines
from tfzoo.data.prepare import encode_cells
from tfzoo.data.tokenizer import TokenizerPair

OnTruncated = Callable[[list[int], int], object]
"""Called with the indices of truncated lines, if there are any, and the number of tokens that are
read of each.
"""


def truncation(count: int, tokens: int) -> str:
    """A sentence that says how many texts are truncated.

    >>> truncation(1, 63)
    '1 text is longer than the 63 tokens that the model reads: the rest is ignored'
    """
    are = "1 text is" if count == 1 else f"{count:,} texts are"
    return f"{are} longer than the {tokens:,} tokens that the model reads: the rest is ignored"


def warn_truncated(rows: list[int], tokens: int) -> None:
    """Warn of truncated lines."""
    warnings.warn(truncation(len(rows), tokens), stacklevel=5)


def translation_batches(
    lines: Iterable[str],
    tokenizers: TokenizerPair,
    max_tokens: int = 4096,
    max_length: int | None = None,
    on_truncated: OnTruncated | None = None,
) -> Iterator[ParallelBatch]:
    """Batches of the lines to translate, sorted by length, the longest first, each of at most
    ``max_tokens`` source tokens.

    Every line is in one batch: an empty one as EOS alone, one with more than ``max_tokens`` in a
    batch of its own. ``index`` is its position among the lines, ``target`` is BOS alone. A line is
    truncated to ``max_length`` tokens, EOS included (None: no limit); ``on_truncated`` is then
    called, by default :func:`warn_truncated`.
    """
    lines = checked_lines(lines)
    if not lines:
        return
    ids = encode_cells(tokenizers.source, lines)
    source = truncated(ids, max_length, tokenizers.special, on_truncated)
    sources, targets = Sentences.of(source), Sentences.of([[]] * len(lines))
    dataset = ParallelDataset(sources, targets, np.arange(len(lines)), tokenizers.special)
    for rows in LengthBucketedSampler(*dataset.lengths(), max_tokens, shuffle=False):
        batch = dataset[rows]
        yield replace(
            batch,
            target=batch.target[:, :1],
            target_lengths=None,
            non_padding=batch.non_padding[:0],
            source_text=[lines[i] for i in batch.index],
        )


def text_batches(
    lines: Iterable[str | Sequence[str]],
    vocabulary: Vocabulary,
    max_tokens: int = 4096,
    max_length: int | None = None,
    on_truncated: OnTruncated | None = None,
) -> Iterator[ClassificationBatch]:
    """Batches of lines, as :func:`translation_batches`; ``label`` is empty. Of a model that reads
    pairs, a line is ``first<TAB>second``, or two texts.

    Raises:
        BadData: a line is no text, or no pair where the model reads pairs.
    """
    lines = checked_lines(pair_lines(lines) if vocabulary.pairs else lines)
    if not lines:
        return
    special = vocabulary.special
    cut = partial(truncate, special=special) if vocabulary.pairs else first_tokens
    ids = truncated(encode_cells(vocabulary.encoder, lines), max_length, special, on_truncated, cut)
    sequences, rows = Sentences.of(ids), np.arange(len(lines))
    longest = int(sequences.lengths.max())
    dataset = ClassificationDataset(
        sequences, np.zeros(0, np.int64), rows, longest, special, lines, pairs=vocabulary.pairs
    )
    for chosen in LengthBucketedSampler(*dataset.lengths(), max_tokens, shuffle=False):
        yield dataset[chosen]


def first_tokens(ids: list[int], most: int) -> list[int]:
    """The first ``most`` tokens."""
    return ids[:most]


def truncated(
    lines: list[list[int]],
    max_length: int | None,
    special: SpecialIds,
    on_truncated: OnTruncated | None,
    cut: Callable[[list[int], int], list[int]] = first_tokens,
) -> list[list[int]]:
    """The ids of each line, truncated by ``cut`` so that ``max_length`` tokens remain with EOS and
    what begins a text.
    """
    if max_length is None:
        return lines
    tokens = max_length - special.frame
    if rows := [index for index, ids in enumerate(lines) if len(ids) > tokens]:
        (on_truncated or warn_truncated)(rows, tokens)
    return [cut(ids, tokens) if len(ids) > tokens else ids for ids in lines]
