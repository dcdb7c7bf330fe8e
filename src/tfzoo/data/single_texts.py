"""What data modules share whose texts one tokenizer reads: the vocabulary, and a part of training
that is held out for validation.
"""

from __future__ import annotations

from typing import Unpack

from tfzoo.data.module import TextData, TextKeywords
from tfzoo.data.prepare import Examples, generated
from tfzoo.data.source import Columns
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadOption


class SingleKeywords(TextKeywords, total=False):
    """The options of :class:`SingleTexts`, for the constructor of a subclass that has more."""

    val_fraction: float


class SingleTexts(TextData):
    """Texts that one tokenizer reads. Without ``val``, a fraction of training is held out for it.

    Args:
        val_fraction: fraction of training that is held out if there is no ``val``.

    Raises:
        BadOption: a number out of its range, or options that exclude each other.
    """

    def __init__(self, *, val_fraction: float = 0.1, **text: Unpack[TextKeywords]) -> None:
        super().__init__(val_fraction=val_fraction, **text)
        self._vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer and the labels, after ``prepare_data`` or ``setup``. Those of a trained
        model can be set before, and are then used.

        Raises:
            BadOption: there is none yet.
        """
        if self._vocabulary is None:
            raise BadOption("data.vocabulary is known after data.prepare_data()")
        return self._vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.sets = {}  # the ids of another tokenizer

    def _examples(self, made: Columns, columns: Columns, endings: Columns) -> dict[str, Examples]:
        """The rows of each split: the columns ``made`` of a built-in data set; or ``columns`` of
        tables and ``endings`` of pairs of files.
        """
        if self.built_in is not None:
            return dict(generated(self.dataset, self.seed, made))
        return self._external(columns, endings)
