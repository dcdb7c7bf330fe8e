"""The data module of classification: labelled text, from files, the hub or a built-in data set."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import normalize

import numpy as np

from tfzoo.data.classification_batch import ClassificationBatch, Vocabulary
from tfzoo.data.encoded import Integers
from tfzoo.data.labelled_text import LabelledText, check_classes
from tfzoo.errors import listing

__all__ = ["ClassificationBatch", "ClassificationData", "Vocabulary"]


class ClassificationData(LabelledText):
    """Batches of texts for :class:`tfzoo.ClassificationTask`; a label is the name of a class.
    Where the text comes from and how it is read: :class:`~tfzoo.data.labelled_text.LabelledText`.
    """

    @property
    def label_counts(self) -> list[int]:
        """The number of training examples of each class."""
        train = self.sets["train"]
        classes = train.labels[train.rows]
        counts: list[int] = np.bincount(classes, minlength=len(self.labels)).tolist()
        return counts

    def labels_of(self, cell: str) -> list[str]:
        """The cell itself, in normal form NFC."""
        return [normalize("NFC", cell)]

    def check_labels(self, labels: Sequence[str]) -> None:
        """Raise BadData unless these can be classes."""
        check_classes(labels, {name: self.splits[name] for name in ("train", "val")})

    def targets(self, name: str, cells: Sequence[str]) -> Integers:
        """The class of each example."""
        return self.label_ids(name, cells).ids

    def _remarks(self) -> list[str]:
        remarks = super()._remarks()
        counts = zip(self.labels, self.label_counts, strict=True)
        if missing := [label for label, count in counts if not count]:
            remarks.append(f"no training example has these labels: {listing(missing)}")
        return remarks
