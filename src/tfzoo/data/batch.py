"""One batch of sentence pairs, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from tfzoo.data.encoded import Integers, Sentences
from tfzoo.data.tokenizer import BEGIN, END


@dataclass
class Pairs:
    """A batch of sentence pairs. Texts are empty lists in training batches.

    - ``source`` ``(b k)``: ids ... end, padded with 0 on the right
    - ``target`` ``(b n)``: begin, ids ... end, padded with 0 on the right
    - ``real`` ``(t,)``: where the t tokens to predict lie in ``target[:, 1:].flatten()``
    - ``source_padding``, ``target_padding``: whether any row is padded at all, known without asking the device
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

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Pairs:
        """The same batch on a device."""
        source, target, real = (x.to(device, non_blocking=non_blocking) for x in (self.source, self.target, self.real))
        return replace(self, source=source, target=target, real=real)

    def pin_memory(self) -> Pairs:
        """The same batch in memory that a GPU copies from without waiting."""
        return replace(self, source=self.source.pin_memory(), target=self.target.pin_memory(), real=self.real.pin_memory())


class PairSet(Dataset[Pairs]):
    """The pairs of one split that are used, asked for a batch at a time: ``pair_set[[4, 7, 1]]`` is a :class:`Pairs`.

    ``rows`` are the places in the split that are used; ``texts`` its lines, where references are wanted.
    """

    def __init__(self, source: Sentences, target: Sentences, rows: Integers, texts: Sequence[tuple[str, str]] = ()) -> None:
        self.source, self.target, self.rows, self.texts = source, target, rows, texts

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, batch: Sequence[int]) -> Pairs:
        rows = self.rows[np.asarray(batch)]
        source, source_padding = padded(self.source, rows, begin=False)
        target, target_padding = padded(self.target, rows, begin=True)
        texts = [self.texts[row] for row in rows] if self.texts else []
        return Pairs(
            torch.from_numpy(source),
            torch.from_numpy(target),
            torch.from_numpy(np.flatnonzero(target[:, 1:])),
            source_padding,
            target_padding,
            [text for text, _ in texts],
            [text for _, text in texts],
            rows.tolist(),
        )

    def __getitems__(self, batch: Sequence[int]) -> Pairs:
        """What a DataLoader calls with the indices of a batch; its ``collate_fn`` has nothing left to do: :func:`as_is`."""
        return self[batch]


def as_is(batch: Pairs) -> Pairs:
    """The ``collate_fn`` of a DataLoader over a :class:`PairSet`, importable by workers that are started afresh."""
    return batch


def padded(sentences: Sentences, rows: Integers, *, begin: bool) -> tuple[Integers, bool]:
    """``(b n)`` ids of these sentences with end (and begin), padded with 0 on the right, and whether any is padded."""
    starts, lengths = sentences.offsets[rows], sentences.lengths[rows]
    first = int(begin)
    matrix = np.zeros((len(rows), first + int(lengths.max()) + 1), dtype=np.int64)
    if begin:
        matrix[:, 0] = BEGIN
    ends = np.cumsum(lengths)
    column = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)  # of each token within its sentence
    row = np.repeat(np.arange(len(rows)), lengths)
    matrix[row, column + first] = sentences.ids[column + np.repeat(starts, lengths)]
    matrix[np.arange(len(rows)), lengths + first] = END
    return matrix, bool(lengths.min() != lengths.max())
