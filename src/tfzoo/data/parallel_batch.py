"""One batch of sentence pairs, as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from tfzoo.data.encoded import Integers, Sentences
from tfzoo.data.lines import written
from tfzoo.data.tokenizer import BEGIN, END
from tfzoo.data.word_dropout import WordDropout
from tfzoo.errors import BadData


def listed(lines: Iterable[str]) -> list[str]:
    """The texts that a model is asked about.

    Raises:
        BadData: one text alone, whose letters would be taken for texts; or what is no text.
    """
    if isinstance(lines, str):
        raise BadData(f"a list of texts is wanted, not one: [{lines[:40]!r}]")
    lines = list(lines)
    for place, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise BadData(f"text {place:,} of {len(lines):,} is no text but {str(line)[:40]}")
        written(line, f"text {place:,} of {len(lines):,}")
    return lines


@dataclass
class ParallelBatch:
    """A batch of sentence pairs. Texts are empty lists in training batches.

    - ``source`` ``(b k)``: ids ... end, padded with 0 on the right
    - ``target`` ``(b n)``: begin, ids ... end, padded with 0 on the right
    - ``real`` ``(t,)``: where the t tokens to predict lie in ``target[:, 1:].flatten()``
    - ``source_padding``, ``target_padding``: whether any row is padded at all, known without asking
      the device
    - ``index``: the place of each pair in its split, to restore its order
    """

    source: Tensor
    target: Tensor
    real: Tensor
    source_padding: bool
    target_padding: bool
    source_text: list[str] = field(default_factory=list)
    target_text: list[str] = field(default_factory=list)
    index: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return self.source.size(0)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> ParallelBatch:
        """The same batch on a device."""
        source, target, real = (
            x.to(device, non_blocking=non_blocking) for x in (self.source, self.target, self.real)
        )
        return replace(self, source=source, target=target, real=real)

    def first(self, rows: int) -> ParallelBatch:
        """The first pairs of it."""
        real = self.real[self.real < rows * (self.target.size(1) - 1)]
        lists = {
            name: getattr(self, name)[:rows] for name in ("source_text", "target_text", "index")
        }
        return replace(
            self, source=self.source[:rows], target=self.target[:rows], real=real, **lists
        )

    def pin_memory(self) -> ParallelBatch:
        """The same batch in memory that a GPU copies from without waiting."""
        return replace(
            self,
            source=self.source.pin_memory(),
            target=self.target.pin_memory(),
            real=self.real.pin_memory(),
        )


class ParallelDataset(Dataset[ParallelBatch]):
    """The pairs of one split that are used, asked for a batch at a time: ``pair_set[[4, 7, 1]]`` is
    a :class:`ParallelBatch`.

    ``rows`` are the places in the split that are used; ``texts`` its lines, where references are
    wanted; ``dropout`` hides words of the source.
    """

    def __init__(
        self,
        source: Sentences,
        target: Sentences,
        rows: Integers,
        texts: Sequence[tuple[str, str]] = (),
        dropout: WordDropout | None = None,
    ) -> None:
        self.source, self.target, self.rows, self.texts, self.dropout = (
            source,
            target,
            rows,
            texts,
            dropout,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def widths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens of both sides of each pair that is used."""
        return self.source.lengths[self.rows], self.target.lengths[self.rows]

    def __getitem__(self, batch: Sequence[int]) -> ParallelBatch:
        rows = self.rows[np.asarray(batch)]
        source, source_padding = padded(self.source, rows, begin=False)
        if self.dropout is not None:
            source = self.dropout(source, rows, epoch_of(batch))
        target, target_padding = padded(self.target, rows, begin=True)
        texts = [self.texts[row] for row in rows] if self.texts else []
        return ParallelBatch(
            torch.from_numpy(source),
            torch.from_numpy(target),
            torch.from_numpy(np.flatnonzero(target[:, 1:])),
            source_padding,
            target_padding,
            [text for text, _ in texts],
            [text for _, text in texts],
            rows.tolist(),
        )

    def __getitems__(self, batch: Sequence[int]) -> ParallelBatch:
        """What a DataLoader calls with the indices of a batch; its ``collate_fn`` has nothing left
        to do: :func:`as_is`.
        """
        return self[batch]


def as_is(batch: Any) -> Any:
    """The ``collate_fn`` of a DataLoader whose data set gives whole batches, importable by workers
    that are started afresh.
    """
    return batch


def epoch_of(batch: Sequence[int]) -> int:
    """The epoch that a batch was drawn for; 0 for one that was put together by hand."""
    epoch: int = getattr(batch, "epoch", 0)
    return epoch


def padded(
    sentences: Sentences, rows: Integers, *, begin: bool, longest: int | None = None
) -> tuple[NDArray[np.int64], bool]:
    """``(b n)`` ids of these sentences with end (and begin), padded with 0 on the right, and
    whether any is padded.

    Of a sentence with more tokens than ``longest``, the first ones.
    """
    starts, lengths = sentences.offsets[rows], sentences.lengths[rows]
    if longest is not None:
        lengths = np.minimum(lengths, longest)
    first = int(begin)
    matrix = np.zeros((len(rows), first + int(lengths.max()) + 1), dtype=np.int64)
    if begin:
        matrix[:, 0] = BEGIN
    ends = np.cumsum(lengths)
    column = np.arange(int(ends[-1])) - np.repeat(
        ends - lengths, lengths
    )  # of each token within its sentence
    row = np.repeat(np.arange(len(rows)), lengths)
    matrix[row, column + first] = sentences.ids[column + np.repeat(starts, lengths)]
    matrix[np.arange(len(rows)), lengths + first] = END
    return matrix, bool(lengths.min() != lengths.max())
