"""Texts as words with a label each: which tokens are those of a word, and batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.batches import (
    ClassificationBatch,
    ClassificationDataset,
    OnTruncated,
    TokenDropout,
    checked_lines,
    first_tokens,
    in_batches,
    truncated,
    warn_truncated,
)
from tfzoo.data.encoded import Sentences
from tfzoo.data.table import words_of
from tfzoo.data.tokenizer import Tokenizer, Vocabulary

BEFORE = "a"
"""A word."""
NO_LABEL = -1
"""Stands where a row of a batch has no more words."""


class WordEncoder:
    """The tokens of a text, word by word, in the form of a tokenizer, so that they are cached. They
    are those of the text: a word after the first one is encoded behind another word and a space,
    which some tokenizers put into its first token. A word without a token is the unknown token, or
    EOS where there is none.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def words(self, texts: Sequence[str]) -> list[list[list[int]]]:
        """The tokens of each word of each text."""
        words = [words_of(text) for text in texts]
        (before,) = self.tokenizer.encode([BEFORE])
        every: list[str] = []
        for text in words:
            every += [*text[:1], *(f"{BEFORE} {word}" for word in text[1:])]
        ids = iter(self.tokenizer.encode(every))
        special = self.tokenizer.special
        unknown = [special.eos if special.unk is None else special.unk]
        return [
            [(next(ids)[len(before) if place else 0 :]) or unknown for place in range(len(text))]
            for text in words
        ]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[token for word in text for token in word] for text in self.words(texts)]

    def state(self) -> str:
        return f"words in their text\n{self.tokenizer.state()}"


class WordLengths(WordEncoder):
    """The number of tokens of each word."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[len(word) for word in text] for text in self.words(texts)]

    def state(self) -> str:
        return f"lengths, {super().state()}"


@dataclass(kw_only=True)
class WordBatch(ClassificationBatch):
    """A batch of texts whose words have labels.

    - ``tokens`` ``(b n)``: as in a :class:`~tfzoo.data.batches.ClassificationBatch`
    - ``label`` ``(b w)``: the class of each word, -1 after the last one; ``(0)`` if the labels are
      not known
    - ``places`` ``(b w)``: the index of each word's first token in ``tokens``, which is classified;
      -1 after the last word, and where a text is truncated
    - ``lengths``, ``index``, ``source_text``: as there
    """

    places: Tensor


class WordDataset(ClassificationDataset):
    """The texts of one split, indexed by batches of :class:`WordBatch`. ``word_lengths`` are the
    numbers of tokens of the words of each text, ``classes`` those of their labels, None if they are
    not known.
    """

    def __init__(
        self,
        sequences: Sentences,
        word_lengths: Sentences,
        classes: Sentences | None,
        max_length: int,
        special: SpecialIds,
        lines: Sequence[str] = (),
        dropout: TokenDropout | None = None,
    ) -> None:
        super().__init__(sequences, np.zeros(0), max_length, special, lines, dropout)
        self.word_lengths, self.classes = word_lengths, classes

    def __getitem__(self, batch: Sequence[int]) -> WordBatch:
        one, rows = super().__getitem__(batch), self.rows[np.asarray(batch)]
        count = self.word_lengths.lengths[rows]
        width = max(1, int(count.max()))
        lengths = self.word_lengths.matrix(rows, 0, count, width)
        places = np.where(lengths > 0, lengths.cumsum(1) - lengths, -1)
        places[places >= self.max_length] = -1
        places[places >= 0] += self.special.cls is not None
        label = np.zeros(0, np.int64)
        if self.classes is not None:
            label = self.classes.matrix(rows, NO_LABEL, count, width)
        known = {**vars(one), "label": torch.from_numpy(label)}
        return WordBatch(**known, places=torch.from_numpy(places))


def word_batches(
    lines: Iterable[str],
    vocabulary: Vocabulary,
    max_tokens: int = 4096,
    max_length: int | None = None,
    on_truncated: OnTruncated = warn_truncated,
) -> Iterable[WordBatch]:
    """Batches of lines, whose words stand between spaces; as
    :func:`tfzoo.data.batches.text_batches`.
    """
    lines = checked_lines(lines)
    words = WordEncoder(vocabulary.tokenizer).words(lines)
    special = vocabulary.special
    whole = [[token for word in text for token in word] for text in words]
    sequences = Sentences.of(truncated(whole, max_length, special, on_truncated, first_tokens))
    lengths = Sentences.of([[len(word) for word in text] for text in words])
    longest = int(sequences.lengths.max(initial=0))
    dataset = WordDataset(sequences, lengths, None, longest, special, lines)
    return in_batches(dataset, max_tokens)
