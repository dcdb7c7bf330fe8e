"""Batches: examples as tensors, the data sets that make them of token ids, and the batches of the
lines that a trained model reads.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.data.loaders import LengthBucketedSampler
from tfzoo.data.prepare import Integers, Sentences, encode_cells
from tfzoo.data.table import TAB, check_unicode, joined
from tfzoo.data.tokenizer import TokenizerPair, Vocabulary, WordEncoder
from tfzoo.errors import BadData, BadOption
from tfzoo.masks import Mask


@dataclass(kw_only=True)
class TensorBatch:
    """Tensors, and what belongs to them, as the attributes of one object.

    - ``index``: the row of each example in its split, to restore its order
    - ``source_text``: the text of each; empty in training batches
    """

    index: list[int] = field(default_factory=list)
    source_text: list[str] = field(default_factory=list)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same batch in pinned memory, which is copied to a GPU asynchronously."""
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed, held = copy(self), vars(self).items()
        vars(changed).update({key: change(one) for key, one in held if isinstance(one, Tensor)})
        return changed


def row_lengths(tokens: Tensor, lengths: Tensor | None) -> list[int]:
    """The tokens of each row of ``(b n)``; ``lengths`` ``(b)`` is None where no row is padded."""
    return [tokens.size(1)] * len(tokens) if lengths is None else lengths.tolist()


@dataclass(kw_only=True)
class TextBatch(TensorBatch):
    """A batch of texts that a model reads as a whole.

    - ``tokens`` ``(b n)``: ids and EOS, padded on the right
    - ``lengths`` ``(b)``: how many tokens of each row are real; None where no row is padded, which
      the host then knows without waiting for the device
    """

    tokens: Tensor
    lengths: Tensor | None

    def __len__(self) -> int:
        return self.tokens.size(0)

    def mask(self) -> Mask:
        """Which tokens are real."""
        return Mask.right(self.lengths, self.tokens.size(1))

    def real_tokens(self) -> Tensor | int:
        """How many tokens are real."""
        return self.tokens.numel() if self.lengths is None else self.lengths.sum()


STEP, FIRST, SECOND = (
    np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
"""The constants of splitmix64."""


@dataclass(frozen=True)
class TokenDropout:
    """Token dropout: replace each token, except special ones, by the unknown token with probability
    ``p`` (Iyyer et al. 2015, P15-1162, section 2.3, who drop whole words).

    Which tokens are replaced is a function of the seed, the epoch, the example and the position,
    independent of the batch that the example is in.

    Raises:
        BadOption: the tokenizer has no unknown token.
    """

    p: float
    seed: int
    special: SpecialIds

    def __post_init__(self) -> None:
        if self.p and self.special.unk is None:
            raise BadOption(
                ": this tokenizer has no unknown token; set it to 0", key="data.token_dropout"
            )

    def __call__(self, ids: NDArray[np.int64], rows: Integers, epoch: int) -> NDArray[np.int64]:
        """``(b n)`` the ids after dropout; ``ids`` ``(b n)`` are those of the examples ``rows``
        ``(b)``.
        """
        if not self.p:
            return ids
        dropped = fraction(random_bits(self.seed, epoch, rows, ids.shape[1])) < self.p
        ordinary = np.isin(ids, list(self.special.every), invert=True)
        return np.where(dropped & ordinary, np.int64(self.special.unk or 0), ids)


def random_bits(seed: int, epoch: int, rows: Integers, n: int) -> NDArray[np.uint64]:
    """``(b n)`` 64 pseudo-random bits for each place of the examples ``rows`` ``(b)``."""
    states = np.full((1, 1), seed % 2**64, np.uint64)
    for counters in (np.full((1, 1), epoch), np.asarray(rows)[:, None], np.arange(n)[None]):
        states = mixed(states + counters.astype(np.uint64))
    return states


def fraction(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Bits as numbers from 0 to below 1, each with the same probability."""
    return (bits >> np.uint64(11)) / np.float64(2**53)


def mixed(counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 pseudo-random bits for each counter (splitmix64, doi:10.1145/2660193.2660195)."""
    z = (counters + np.uint64(1)) * STEP
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@dataclass(kw_only=True)
class ParallelBatch(TensorBatch):
    """A batch of sentence pairs, as :class:`tfzoo.TranslationData` yields them. :meth:`collate`
    makes one from lists of ids.

    - ``source`` ``(b k)``: ids and EOS, padded on the right
    - ``target`` ``(b n)``: BOS, ids and EOS, padded on the right
    - ``non_padding`` ``(t,)``: the indices of the t tokens to predict in
      ``target[:, 1:].flatten()``
    - ``source_lengths``, ``target_lengths`` ``(b)``: how many tokens of each row are real; None
      where no row is padded
    """

    source: Tensor
    target: Tensor
    non_padding: Tensor
    source_lengths: Tensor | None
    target_lengths: Tensor | None
    target_text: list[str] = field(default_factory=list)

    @classmethod
    def collate(
        cls, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], special: SpecialIds = OWN
    ) -> ParallelBatch:
        """A batch from the token ids of pairs, without BOS, EOS and padding, which it adds; the
        ``collate_fn`` of a DataLoader over such pairs. ``special`` are those of their tokenizer, by
        default of tfzoo's own; of another, pass ``functools.partial(ParallelBatch.collate,
        special=tokenizer.special)``.

        >>> batch = ParallelBatch.collate([([5, 6, 7], [8]), ([5], [9, 4])])
        >>> batch.source
        tensor([[5, 6, 7, 3],
                [5, 3, 0, 0]])
        >>> batch.target
        tensor([[2, 8, 3, 0],
                [2, 9, 4, 3]])
        >>> batch.non_padding
        tensor([0, 1, 3, 4, 5])

        Raises:
            BadData: no pair, or an id of padding, BOS or EOS.
        """
        source, target = (sentences_of([pair[side] for pair in pairs], special) for side in (0, 1))
        return ParallelDataset(source, target, special)[range(len(pairs))]

    def __len__(self) -> int:
        return self.source.size(0)

    def source_mask(self) -> Mask:
        """Which source tokens are real."""
        return Mask.right(self.source_lengths, self.source.size(1))

    def target_mask(self) -> Mask:
        """Which tokens of ``target[:, :-1]`` the decoder reads: those that a token follows."""
        lengths = None if self.target_lengths is None else self.target_lengths - 1
        return Mask.right(lengths, self.target.size(1) - 1)


class ParallelDataset:
    """The pairs of one split, indexed by batches: ``dataset[[4, 7, 1]]`` is a
    :class:`ParallelBatch` of three pairs.

    ``lines`` is the text, where it is needed, ``dropout`` is applied to the source, and ``rows``
    are those of the split that are used.
    """

    def __init__(
        self,
        source: Sentences,
        target: Sentences,
        special: SpecialIds,
        lines: Sequence[tuple[str, str]] = (),
        dropout: TokenDropout | None = None,
    ) -> None:
        self.source, self.target, self.special = source, target, special
        self.lines, self.dropout = lines, dropout
        self.rows: Integers = np.arange(len(source))

    def __len__(self) -> int:
        return len(self.rows)

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``(pairs,)`` tokens of the source and of the target of each pair, without what begins
        the target and EOS.
        """
        before = self.special.cls is not None
        more = len(self.special.before_target) - 1
        return self.source.lengths[self.rows] + before, self.target.lengths[self.rows] + more

    def __getitem__(self, batch: Sequence[int]) -> ParallelBatch:
        rows = self.rows[np.asarray(batch)]
        special = self.special
        source, source_lengths = padded(self.source, rows, special, special.cls)
        if self.dropout is not None:
            source = self.dropout(source, rows, epoch_of(batch))
        target, target_lengths = padded(self.target, rows, special, special.before_target)
        lines = [self.lines[row] for row in rows] if self.lines else []
        predicted = self.target.lengths[rows] + len(special.before_target)
        places = np.flatnonzero(np.arange(target.shape[1] - 1) < predicted[:, None])
        return ParallelBatch(
            source=torch.from_numpy(source),
            target=torch.from_numpy(target),
            non_padding=torch.from_numpy(places),
            source_lengths=source_lengths,
            target_lengths=target_lengths,
            source_text=[line for line, _ in lines],
            target_text=[line for _, line in lines],
            index=rows.tolist(),
        )


@dataclass(kw_only=True)
class ClassificationBatch(TextBatch):
    """A batch of labelled sequences, as :class:`tfzoo.ClassificationData` yields them: a
    :class:`TextBatch` with labels. :meth:`collate` makes one from lists of ids.

    - ``label`` ``(b)``: classes, int64, or numbers, float64; ``(b labels)``: 0 and 1, int64, where
      a text has several; ``(0)`` if the labels are not known
    """

    label: Tensor

    @classmethod
    def collate(
        cls, examples: Sequence[tuple[Sequence[int], int]], special: SpecialIds = OWN
    ) -> ClassificationBatch:
        """A batch from the token ids of sequences, without EOS and padding, which it adds, and
        their classes; the ``collate_fn`` of a DataLoader over such pairs. ``special`` as for
        :meth:`ParallelBatch.collate`.

        >>> batch = ClassificationBatch.collate([([5, 6, 7], 0), ([5], 2)])
        >>> batch.tokens
        tensor([[5, 6, 7, 3],
                [5, 3, 0, 0]])
        >>> batch.label
        tensor([0, 2])

        Raises:
            BadData: no example, or an id of padding, BOS or EOS.
        """
        sequences = sentences_of([ids for ids, _ in examples], special)
        classes = np.array([operator.index(label) for _, label in examples])
        longest = int(sequences.lengths.max())
        dataset = ClassificationDataset(sequences, classes, longest, special)
        return dataset[range(len(examples))]


class ClassificationDataset:
    """The sequences of one split, indexed by batches: ``dataset[[4, 7, 1]]`` is a
    :class:`ClassificationBatch` of three sequences.

    ``labels`` ``(rows of the split)``, classes or numbers, or ``(rows labels)`` flags, is empty if
    the labels are not known; ``lines`` is the text, where it is needed, and ``rows`` are those of
    the split that are used. Of a sequence with more than ``max_length`` tokens, the first ones are
    used; of ``pairs``, whose texts a separator divides, those of both texts (:func:`truncate`).
    """

    def __init__(
        self,
        sequences: Sentences,
        labels: NDArray[Any],
        max_length: int,
        special: SpecialIds,
        lines: Sequence[str] = (),
        dropout: TokenDropout | None = None,
        *,
        pairs: bool = False,
    ) -> None:
        self.sequences, self.labels, self.pairs = sequences, labels, pairs
        self.max_length, self.special = max_length, special
        self.lines, self.dropout = lines, dropout
        self.rows: Integers = np.arange(len(sequences))

    def __len__(self) -> int:
        return len(self.rows)

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``(sequences,)`` tokens of each sequence, without EOS, for both sides of the sampler."""
        before = self.special.cls is not None
        lengths = np.minimum(self.sequences.lengths[self.rows], self.max_length) + before
        return lengths, lengths

    def __getitem__(self, batch: Sequence[int]) -> ClassificationBatch:
        rows = self.rows[np.asarray(batch)]
        special, most = self.special, self.max_length
        if self.pairs and (self.sequences.lengths[rows] > most).any():
            short = shortened(self.sequences, rows, most, special)
            tokens, lengths = padded(short, np.arange(len(rows)), special, special.cls)
        else:
            tokens, lengths = padded(self.sequences, rows, special, special.cls, most)
        if self.dropout is not None:
            tokens = self.dropout(tokens, rows, epoch_of(batch))
        dtype = np.float64 if self.labels.dtype.kind == "f" else np.int64
        label = np.asarray(self.labels[rows] if len(self.labels) else NONE, dtype=dtype)
        lines = [self.lines[row] for row in rows] if self.lines else []
        return ClassificationBatch(
            tokens=torch.from_numpy(tokens),
            label=torch.from_numpy(label),
            lengths=lengths,
            index=rows.tolist(),
            source_text=lines,
        )


def sentences_of(ids: Sequence[Sequence[int]], special: SpecialIds) -> Sentences:
    """The lists of ids of a batch: one or more, without special ids but the unknown one and the
    mask.
    """
    if not ids:
        raise BadData("a batch needs at least one example")
    sentences = Sentences.of([list(map(operator.index, one)) for one in ids])
    wrong = np.isin(sentences.ids, [*special.every - {special.unk, special.mask}])
    if wrong.any():
        raise BadData(
            f"id {sentences.ids[wrong][0]} is a special one; pass ids without BOS, EOS and "
            "padding, which the batch adds"
        )
    return sentences


def epoch_of(batch: Sequence[int]) -> int:
    """The epoch of the indices that a sampler yields; 0 for a plain list."""
    return int(getattr(batch, "epoch", 0))


def padded(
    sentences: Sentences,
    rows: Integers,
    special: SpecialIds,
    begin: int | Sequence[int] | None,
    max_length: int | None = None,
) -> tuple[NDArray[np.int64], Tensor | None]:
    """``(b n)`` ids of the sentences ``rows`` with EOS, after ``begin`` if given, padded on the
    right, and how many are real ``(b)``; None where no row is padded.

    Of a sentence with more than ``max_length`` tokens, the first ones are taken.
    """
    lengths = np.minimum(sentences.lengths[rows], max_length or sys.maxsize)
    ids = sentences.matrix(rows, special.fill, lengths, int(lengths.max()) + 1)
    ids[np.arange(len(rows)), lengths] = special.eos
    before = np.ravel(() if begin is None else begin).astype(np.int64)
    ids = np.hstack([np.tile(before, (len(rows), 1)), ids])
    uneven = lengths.min() != lengths.max()
    return ids, torch.from_numpy(lengths + len(before) + 1) if uneven else None


def checked_lines(lines: Iterable[Any], pairs: bool = False) -> list[str]:
    """The lines that a user wants translated or classified, as a list. A line of ``pairs`` is two
    texts, or one with a tab between them; an empty one is a pair of empty texts.

    Raises:
        BadData: ``lines`` is one string, or holds something that is no string or no pair.
    """
    if isinstance(lines, str | bytes):
        raise BadData(f"pass a list of texts, not one: [{lines[:40]!r}]")
    lines = list(lines)
    for place, line in enumerate(lines):
        where = f"line {place + 1:,} of {len(lines):,}"
        if pairs and isinstance(line, tuple | list) and all(isinstance(one, str) for one in line):
            line = lines[place] = joined(line)
        if not isinstance(line, str):
            raise BadData(f"{where} is not a string but {str(line)[:40]}")
        if pairs and line and line.count(TAB) != 1:
            raise BadData(
                f"{where}, {line[:40]!r}: the model reads pairs of texts, each with one tab "
                "between its two texts"
            )
        check_unicode(line, where)
    return lines


OnTruncated = Callable[[list[int], int], object]
"""Called with the indices of truncated lines, if there are any, and the tokens that are read."""


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
    on_truncated: OnTruncated = warn_truncated,
) -> Iterator[ParallelBatch]:
    """Batches of the lines to translate, sorted by length, the longest first, each of at most
    ``max_tokens`` source tokens.

    Every line is in one batch: an empty one as EOS alone, one with more than ``max_tokens`` in a
    batch of its own. ``index`` is its position among the lines, ``target`` is BOS alone. A line is
    truncated to ``max_length`` tokens, EOS included (None: no limit); ``on_truncated`` is then
    called, by default :func:`warn_truncated`.
    """
    lines, special = checked_lines(lines), tokenizers.special
    ids = encode_cells(tokenizers.source, lines)
    most = most_read(ids, max_length, special, on_truncated)
    sources = Sentences.of([one[:most] for one in ids])
    targets = Sentences.of([[]] * len(lines))
    for batch in in_batches(ParallelDataset(sources, targets, special), max_tokens):
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
    on_truncated: OnTruncated = warn_truncated,
) -> Iterator[ClassificationBatch]:
    """Batches of lines, as :func:`translation_batches`; ``label`` is empty. Of a model that reads
    pairs, a line is ``first<TAB>second``, or two texts.

    Raises:
        BadData: a line is no text, or no pair where the model reads pairs.
    """
    lines, special = checked_lines(lines, vocabulary.pairs), vocabulary.special
    [(_, encoder)] = vocabulary.encoders
    ids = encode_cells(encoder, lines)
    most, sequences = most_read(ids, max_length, special, on_truncated), Sentences.of(ids)
    dataset = ClassificationDataset(sequences, NONE, most, special, lines, pairs=vocabulary.pairs)
    return in_batches(dataset, max_tokens)


def in_batches(dataset: Any, max_tokens: int) -> Iterator[Any]:
    """The batches of a data set, each row once, the longest first."""
    if len(dataset):
        source, target = dataset.lengths()
        for rows in LengthBucketedSampler(source, target, max_tokens, shuffle=False):
            yield dataset[rows]


def most_read(
    lines: list[list[int]], max_length: int | None, special: SpecialIds, on_truncated: OnTruncated
) -> int:
    """The tokens that are read of each of these lines at most, so that they are ``max_length`` with
    EOS and what begins a text.
    """
    longest = max(map(len, lines), default=0)
    if max_length is None or longest <= (tokens := max_length - special.frame):
        return longest
    on_truncated([index for index, ids in enumerate(lines) if len(ids) > tokens], tokens)
    return tokens


def truncate(ids: Sequence[int], most: int, special: SpecialIds) -> list[int]:
    """The first tokens of both texts of a pair, at most ``most`` with the separator: of the longer
    text one is removed at a time, of texts of equal length the second one's ("longest first").

    >>> from tfzoo.base.special_ids import OWN
    >>> truncate([5, 6, 7, 8, 3, 9, 10], 5, OWN)
    [5, 6, 3, 9, 10]
    """
    found, between = list(ids), special.sep
    first = found.index(between[0])
    rest = found[first + len(between) :]
    left = max(most - len(between), 0)
    first = min(first, max(left - left // 2, left - len(rest)))
    return [*found[:first], *between, *rest[: max(left - first, 0)]]


def shortened(sequences: Sentences, rows: Integers, most: int, special: SpecialIds) -> Sentences:
    """The pairs ``rows``, each with at most ``most`` tokens."""
    starts, ends = sequences.offsets[rows], sequences.offsets[np.asarray(rows) + 1]
    each = (sequences.ids[start:end].tolist() for start, end in zip(starts, ends, strict=True))
    return Sentences.of([truncate(ids, most, special) if len(ids) > most else ids for ids in each])


NONE: NDArray[np.int64] = np.zeros(0, np.int64)
"""Labels that are not known."""
NO_LABEL = -1
"""Stands where a row of a batch has no more words."""


@dataclass(kw_only=True)
class WordBatch(ClassificationBatch):
    """A batch of texts whose words have labels.

    - ``label`` ``(b w)``: the class of each word, -1 after the last one; ``(0)`` if the labels are
      not known
    - ``places`` ``(b w)``: the index of each word's first token in ``tokens``, which is classified;
      -1 after the last word, and where a text is truncated
    """

    places: Tensor


class WordDataset(ClassificationDataset):
    """The texts of one split, in batches of :class:`WordBatch`. ``word_lengths`` are the numbers of
    tokens of the words of each text, ``classes`` those of their labels, None if not known. Other
    arguments follow as in :class:`ClassificationDataset`.
    """

    def __init__(
        self,
        sequences: Sentences,
        word_lengths: Sentences,
        classes: Sentences | None,
        *reading: Any,
        **options: Any,
    ) -> None:
        super().__init__(sequences, NONE, *reading, **options)
        self.word_lengths, self.classes = word_lengths, classes

    def __getitem__(self, batch: Sequence[int]) -> WordBatch:
        one, rows = super().__getitem__(batch), self.rows[np.asarray(batch)]
        count = self.word_lengths.lengths[rows]
        width = max(1, int(count.max()))
        lengths = self.word_lengths.matrix(rows, 0, count, width)
        places = np.where(lengths > 0, lengths.cumsum(1) - lengths, -1)
        places[places >= self.max_length] = -1
        places[places >= 0] += self.special.cls is not None
        label = NONE
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
    """Batches of lines, whose words stand between spaces; as :func:`text_batches`."""
    lines = checked_lines(lines)
    words = WordEncoder(vocabulary.tokenizer).words(lines)
    special = vocabulary.special
    whole = [[token for word in text for token in word] for text in words]
    most = most_read(whole, max_length, special, on_truncated)
    lengths = Sentences.of([[len(word) for word in text] for text in words])
    dataset = WordDataset(Sentences.of(whole), lengths, None, most, special, lines)
    return in_batches(dataset, max_tokens)
