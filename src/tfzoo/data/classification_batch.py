"""One batch of labelled texts, as tensors, and what a classifier's words and labels are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from tfzoo.data.encoded import Integers, Sentences
from tfzoo.data.parallel_batch import epoch_of, padded
from tfzoo.data.tokenizer import Tokenizer
from tfzoo.data.word_dropout import WordDropout
from tfzoo.registry import Spec, create


@dataclass
class ClassificationBatch:
    """A batch of labelled texts. ``source_text`` is empty in training batches.

    - ``text`` ``(b n)``: ids ... end, padded with 0 on the right
    - ``label`` ``(b)``: classes; ``(0)`` where there are none to know
    - ``padding``: whether any row is padded at all, known without asking the device
    - ``index``: the place of each text in its split, to restore its order
    """

    text: Tensor
    label: Tensor
    padding: bool
    index: list[int] = field(default_factory=list)
    source_text: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return self.text.size(0)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> ClassificationBatch:
        """The same batch on a device."""
        return replace(
            self,
            text=self.text.to(device, non_blocking=non_blocking),
            label=self.label.to(device, non_blocking=non_blocking),
        )

    def first(self, rows: int) -> ClassificationBatch:
        """The first texts of it."""
        lists = {name: getattr(self, name)[:rows] for name in ("source_text", "index")}
        return replace(self, text=self.text[:rows], label=self.label[:rows], **lists)

    def pin_memory(self) -> ClassificationBatch:
        """The same batch in memory that a GPU copies from without waiting."""
        return replace(self, text=self.text.pin_memory(), label=self.label.pin_memory())


class ClassificationDataset(Dataset[ClassificationBatch]):
    """The texts of one split that are used, asked for a batch at a time: ``labelled_set[[4, 7,
    1]]`` is a :class:`ClassificationBatch`.

    ``classes`` ``(rows of the split)`` may be empty where no labels are known; ``rows`` are the
    places in the split that are used, ``lines`` its texts, where they are wanted. Of each text, the
    first ``longest`` tokens are used, and the end.
    """

    def __init__(
        self,
        texts: Sentences,
        classes: Integers,
        rows: Integers,
        longest: int,
        lines: Sequence[str] = (),
        dropout: WordDropout | None = None,
    ) -> None:
        self.texts, self.classes, self.rows, self.longest, self.lines, self.dropout = (
            texts,
            classes,
            rows,
            longest,
            lines,
            dropout,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def widths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens of each text that is used, once for each side that batches are cut by: there is
        only one.
        """
        widths: NDArray[np.int64] = np.minimum(self.texts.lengths[self.rows], self.longest)
        return widths, widths

    def __getitem__(self, batch: Sequence[int]) -> ClassificationBatch:
        rows = self.rows[np.asarray(batch)]
        text, padding = padded(self.texts, rows, begin=False, longest=self.longest)
        if self.dropout is not None:
            text = self.dropout(text, rows, epoch_of(batch))
        label = np.asarray(self.classes[rows] if len(self.classes) else [], dtype=np.int64)
        lines = [self.lines[row] for row in rows] if self.lines else []
        return ClassificationBatch(
            torch.from_numpy(text), torch.from_numpy(label), padding, rows.tolist(), lines
        )

    def __getitems__(self, batch: Sequence[int]) -> ClassificationBatch:
        """What a DataLoader calls with the indices of a batch."""
        return self[batch]


@dataclass
class Vocabulary:
    """What a classifier knows of its text: the tokenizer, and the labels by class. ``spec`` is what
    made the tokenizer.
    """

    tokenizer: Tokenizer
    labels: list[str]
    spec: Spec = "bpe"

    def state(self) -> dict[str, Any]:
        """Plain values that :meth:`restore` turns back into this; part of every checkpoint."""
        spec = self.spec if isinstance(self.spec, str) else dict(self.spec)
        return {"tokenizer": spec, "state": self.tokenizer.state(), "labels": list(self.labels)}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary whose :meth:`state` this is; needs neither text nor cache."""
        tokenizer: Tokenizer = create("tokenizer", state["tokenizer"])
        tokenizer.restore(state["state"])
        return cls(tokenizer, list(state["labels"]), state["tokenizer"])


class Classes:
    """Labels as ids, so that they are kept like the ids of text: class k of the label that stands
    at place k.

    Raises (while encoding):
        KeyError: a label that is none of them.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.known = {label: [k] for k, label in enumerate(labels)}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.known[text] for text in texts]

    def state(self) -> str:
        return "\n".join(self.known)
