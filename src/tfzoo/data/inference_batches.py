"""Batches of lines that a trained model is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from tfzoo.data.classification_batch import ClassificationBatch, ClassificationDataset, Vocabulary
from tfzoo.data.encoded import Sentences
from tfzoo.data.length_bucketed_sampler import LengthBucketedSampler
from tfzoo.data.parallel_batch import ParallelBatch, ParallelDataset, checked_lines
from tfzoo.data.tokenizer import Tokenizer, TokenizerPair


def translation_batches(
    lines: Iterable[str],
    tokenizers: TokenizerPair,
    max_tokens: int = 4096,
    max_length: int | None = None,
) -> Iterator[ParallelBatch]:
    """Batches of the lines to translate, sorted by length, the longest first, each of at most
    ``max_tokens`` source tokens.

    Every line is in one batch: an empty one as EOS alone, one with more than ``max_tokens`` in a
    batch of its own. ``index`` is its position among the lines, ``target`` is BOS alone. Of lines
    with more than ``max_length`` tokens, EOS included, the first tokens are used (None: no limit).
    """
    lines = checked_lines(lines)
    if not lines:
        return
    source = encoded(lines, tokenizers.source)
    if max_length is not None:
        source = [ids[: max_length - 1] for ids in source]
    sources, targets = Sentences.of(source), Sentences.of([[]] * len(lines))
    dataset = ParallelDataset(sources, targets, np.arange(len(lines)))
    for rows in LengthBucketedSampler(*dataset.lengths(), max_tokens, shuffle=False):
        batch = dataset[rows]
        yield replace(
            batch,
            target=batch.target[:, :1],
            non_padding=batch.non_padding[:0],
            source_text=[lines[i] for i in batch.index],
        )


def classification_batches(
    lines: Iterable[str],
    vocabulary: Vocabulary,
    max_tokens: int = 4096,
    max_length: int | None = None,
    on_cut: Callable[[int], object] | None = None,
) -> Iterator[ClassificationBatch]:
    """Batches of the lines to classify, as :func:`translation_batches`; ``label`` is empty.

    ``on_cut`` is called with the number of lines that have more than ``max_length`` tokens, EOS
    included.
    """
    lines = checked_lines(lines)
    if not lines:
        return
    sequences = Sentences.of(encoded(lines, vocabulary.tokenizer))
    most = int(sequences.lengths.max()) if max_length is None else max_length - 1
    if on_cut is not None:
        on_cut(int((sequences.lengths > most).sum()))
    classes = np.zeros(0, np.int64)
    dataset = ClassificationDataset(sequences, classes, np.arange(len(lines)), most)
    for rows in LengthBucketedSampler(*dataset.lengths(), max_tokens, shuffle=False):
        batch = dataset[rows]
        yield replace(batch, source_text=[lines[i] for i in batch.index])


def encoded(lines: list[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of each line; a line of spaces alone has none, as in training."""
    return tokenizer.encode([line if line.strip() else "" for line in lines])
