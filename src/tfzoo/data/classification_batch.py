"""Batches of labelled sequences, as tensors, and the vocabulary of a classifier: tokenizer and
labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfzoo.base.registry import Spec
from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.data.batch import Batch, BatchDataset, first_of
from tfzoo.data.encoded import Integers, Sentences
from tfzoo.data.pairs import PairEncoder, shortened
from tfzoo.data.parallel_batch import epoch_of, padded, sentences_of, whole
from tfzoo.data.token_dropout import TokenDropout
from tfzoo.data.tokenizer import Tokenizer, restored
from tfzoo.errors import BadRun
from tfzoo.masks import Mask


@dataclass
class ClassificationBatch(Batch):
    """A batch of labelled sequences, as :class:`tfzoo.ClassificationData` yields them.
    ``source_text`` is empty in training batches. :meth:`collate` makes one from lists of ids.

    - ``tokens`` ``(b n)``: ids and EOS, padded on the right
    - ``label`` ``(b)``: classes, int64, or numbers, float64; ``(b labels)``: 0 and 1, int64, where
      a text has several; ``(0)`` if the labels are not known
    - ``lengths`` ``(b)``: how many tokens of each row are real; None where no row is padded, which
      the host then knows without waiting for the device
    - ``index``: the row of each sequence in its split, to restore its order
    """

    tokens: Tensor
    label: Tensor
    lengths: Tensor | None
    index: list[int] = field(default_factory=list)
    source_text: list[str] = field(default_factory=list)

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
            BadData: no example, an id of padding, BOS or EOS, or a class that is no whole number.
        """
        sequences = sentences_of([ids for ids, _ in examples], special)
        classes = np.array([whole(label) for _, label in examples])
        longest = int(sequences.lengths.max())
        rows = np.arange(len(examples))
        dataset = ClassificationDataset(sequences, classes, rows, longest, special)
        return dataset[range(len(examples))]

    def __len__(self) -> int:
        return self.tokens.size(0)

    def mask(self) -> Mask:
        """Which tokens are real."""
        return Mask.right(self.lengths, self.tokens.size(1))

    def first(self, rows: int) -> Self:
        """The first ``rows`` sequences of the batch."""
        return replace(
            self,
            tokens=self.tokens[:rows],
            label=self.label[:rows],
            lengths=first_of(rows, self.lengths),
            source_text=self.source_text[:rows],
            index=self.index[:rows],
        )


class ClassificationDataset(BatchDataset[ClassificationBatch]):
    """The sequences of one split, indexed by batches: ``dataset[[4, 7, 1]]`` is a
    :class:`ClassificationBatch` of three sequences.

    ``labels`` ``(rows of the split)``, classes or numbers, or ``(rows labels)`` flags, is empty if
    the labels are not known; ``rows`` are the rows of the split that are used, ``special`` the ids
    of the tokenizer, and ``lines`` is the text, where it is needed.
    Of a sequence with more than ``max_length`` tokens, the first ones are used; EOS follows them.
    Of ``pairs``, whose texts a separator divides, those of both texts
    (:func:`tfzoo.data.pairs.truncate`).
    """

    def __init__(
        self,
        sequences: Sentences,
        labels: NDArray[Any],
        rows: Integers,
        max_length: int,
        special: SpecialIds,
        lines: Sequence[str] = (),
        dropout: TokenDropout | None = None,
        *,
        pairs: bool = False,
    ) -> None:
        self.pairs = pairs
        self.sequences, self.labels, self.rows = sequences, labels, rows
        self.max_length, self.special = max_length, special
        self.lines, self.dropout = lines, dropout

    def __len__(self) -> int:
        return len(self.rows)

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``(sequences,)`` tokens of each sequence, without EOS; twice, because the sampler limits
        two sides of a batch and here there is only one.
        """
        whole = self.sequences.lengths[self.rows]
        lengths: NDArray[np.int64] = np.minimum(whole, self.max_length)
        lengths = lengths + (self.special.cls is not None)
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
        label = np.asarray(self.labels[rows] if len(self.labels) else [], dtype=dtype)
        lines = [self.lines[row] for row in rows] if self.lines else []
        return ClassificationBatch(
            torch.from_numpy(tokens), torch.from_numpy(label), lengths, rows.tolist(), lines
        )


@dataclass
class Vocabulary:
    """The tokenizer of a classifier and its labels: class k is ``labels[k]``. ``spec`` is the name
    and the options of the tokenizer; ``texts`` are the names of the texts that one example has,
    two for pairs.
    """

    tokenizer: Tokenizer
    labels: list[str]
    spec: Spec = "bpe"
    texts: Sequence[str] = ("text",)

    @property
    def special(self) -> SpecialIds:
        """The special ids of the tokenizer."""
        return self.tokenizer.special

    @property
    def pairs(self) -> bool:
        """Whether an example is a pair of texts."""
        return len(self.texts) == 2

    @property
    def encoder(self) -> Tokenizer | PairEncoder:
        """What encodes an example: a text, or a pair as one text (:mod:`tfzoo.data.pairs`)."""
        return PairEncoder(self.tokenizer) if self.pairs else self.tokenizer

    def state(self) -> dict[str, Any]:
        """Plain values from which :meth:`restore` builds it; part of every checkpoint."""
        spec = self.spec if isinstance(self.spec, str) else dict(self.spec)
        return {
            "tokenizer": spec,
            "state": self.tokenizer.state(),
            "labels": list(self.labels),
            "texts": list(self.texts),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Vocabulary:
        """Build the vocabulary from its :meth:`state`; needs neither text nor cache."""
        tokenizer, texts = restored(state["tokenizer"], state["state"]), list(state["texts"])
        if len(texts) not in (1, 2) or not all(isinstance(name, str) for name in texts):
            raise BadRun("the checkpoint's contents do not match: an example has one or two texts")
        return cls(tokenizer, list(state["labels"]), state["tokenizer"], texts)
