"""Batches of sentence pairs, as tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.data.batch import Batch, BatchDataset, first_of
from tfzoo.data.encoded import Integers, Sentences
from tfzoo.data.pairs import check_several
from tfzoo.data.table import check_unicode
from tfzoo.data.token_dropout import TokenDropout
from tfzoo.errors import BadData
from tfzoo.masks import Mask


def checked_lines(lines: Iterable[Any]) -> list[str]:
    """The lines that a user wants translated or classified, as a list.

    Raises:
        BadData: ``lines`` is one string, or holds something that is no string.
    """
    check_several(lines)
    lines = list(lines)
    for number, line in enumerate(lines, 1):
        where = f"line {number:,} of {len(lines):,}"
        if not isinstance(line, str):
            raise BadData(f"{where} is not a string but {str(line)[:40]}")
        check_unicode(line, where)
    return lines


@dataclass
class ParallelBatch(Batch):
    """A batch of sentence pairs, as :class:`tfzoo.TranslationData` yields them. The lists of text
    are empty in training batches. :meth:`collate` makes one from lists of ids.

    - ``source`` ``(b k)``: ids and EOS, padded on the right
    - ``target`` ``(b n)``: BOS, ids and EOS, padded on the right
    - ``non_padding`` ``(t,)``: the indices of the t tokens to predict in
      ``target[:, 1:].flatten()``
    - ``source_lengths``, ``target_lengths`` ``(b)``: how many tokens of each row are real; None
      where no row is padded, which the host then knows without waiting for the device
    - ``index``: the row of each pair in its split, to restore its order
    """

    source: Tensor
    target: Tensor
    non_padding: Tensor
    source_lengths: Tensor | None
    target_lengths: Tensor | None
    source_text: list[str] = field(default_factory=list)
    target_text: list[str] = field(default_factory=list)
    index: list[int] = field(default_factory=list)

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
        return ParallelDataset(source, target, np.arange(len(pairs)), special)[range(len(pairs))]

    def __len__(self) -> int:
        return self.source.size(0)

    def source_mask(self) -> Mask:
        """Which source tokens are real."""
        return Mask.right(self.source_lengths, self.source.size(1))

    def target_mask(self) -> Mask:
        """Which tokens of ``target[:, :-1]`` the decoder reads: those that a token follows."""
        lengths = None if self.target_lengths is None else self.target_lengths - 1
        return Mask.right(lengths, self.target.size(1) - 1)

    def first(self, rows: int) -> ParallelBatch:
        """The first ``rows`` pairs of the batch."""
        kept = self.non_padding < rows * (self.target.size(1) - 1)
        return replace(
            self,
            source=self.source[:rows],
            target=self.target[:rows],
            non_padding=self.non_padding[kept],
            source_lengths=first_of(rows, self.source_lengths),
            target_lengths=first_of(rows, self.target_lengths),
            source_text=self.source_text[:rows],
            target_text=self.target_text[:rows],
            index=self.index[:rows],
        )


class ParallelDataset(BatchDataset[ParallelBatch]):
    """The pairs of one split, indexed by batches: ``dataset[[4, 7, 1]]`` is a
    :class:`ParallelBatch` of three pairs.

    ``rows`` are the rows of the split that are used, ``special`` the ids of the tokenizers,
    ``lines`` the text (needed where references are), and ``dropout`` is applied to the source.
    """

    def __init__(
        self,
        source: Sentences,
        target: Sentences,
        rows: Integers,
        special: SpecialIds,
        lines: Sequence[tuple[str, str]] = (),
        dropout: TokenDropout | None = None,
    ) -> None:
        self.source, self.target, self.rows, self.special = source, target, rows, special
        self.lines, self.dropout = lines, dropout

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
        return ParallelBatch(
            torch.from_numpy(source),
            torch.from_numpy(target),
            torch.from_numpy(np.flatnonzero(np.arange(target.shape[1] - 1) < predicted[:, None])),
            source_lengths,
            target_lengths,
            [line for line, _ in lines],
            [line for _, line in lines],
            rows.tolist(),
        )


def sentences_of(ids: Sequence[Sequence[int]], special: SpecialIds) -> Sentences:
    """Lists of ids of a batch.

    Raises:
        BadData: no list, a special id other than the unknown one, or one that is no whole number.
    """
    if not ids:
        raise BadData("a batch needs at least one example")
    sentences = Sentences.of([list(map(whole, one)) for one in ids])
    wrong = np.isin(sentences.ids, [*special.every - {special.unk, special.mask}])
    if wrong.any():
        raise BadData(
            f"id {sentences.ids[wrong][0]} is a special one; pass ids without BOS, EOS and "
            "padding, which the batch adds"
        )
    return sentences


def whole(number: Any) -> int:
    """An id or a class as an int.

    Raises:
        BadData: it is a float, or several numbers.
    """
    try:
        return operator.index(number)
    except TypeError:
        raise BadData(f"ids and classes are whole numbers, not {str(number)[:40]}") from None


def as_is(batch: Any) -> Any:
    """The ``collate_fn`` for data sets that return whole batches. A function of a module, because
    worker processes that are spawned have to import it.
    """
    return batch


def epoch_of(batch: Sequence[int]) -> int:
    """The epoch of the indices that a sampler yields; 0 for a plain list."""
    epoch: int = getattr(batch, "epoch", 0)
    return epoch


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
    starts, lengths = sentences.offsets[rows], sentences.lengths[rows]
    if max_length is not None:
        lengths = np.minimum(lengths, max_length)
    before = np.ravel(() if begin is None else begin)
    first = len(before)
    shape = len(rows), first + int(lengths.max()) + 1
    matrix = np.full(shape, special.fill, dtype=np.int64)
    matrix[:, :first] = before
    ends = np.cumsum(lengths)
    # the column of each token (its position in its sentence) and its row
    column = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
    row = np.repeat(np.arange(len(rows)), lengths)
    matrix[row, column + first] = sentences.ids[column + np.repeat(starts, lengths)]
    matrix[np.arange(len(rows)), lengths + first] = special.eos
    uneven = lengths.min() != lengths.max()
    return matrix, torch.from_numpy(lengths + first + 1) if uneven else None
