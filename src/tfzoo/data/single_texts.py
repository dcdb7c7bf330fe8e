"""What data modules share whose texts one tokenizer reads: where the text comes from, the
vocabulary, and a part of training that is held out for validation.
"""

from __future__ import annotations

from typing import ClassVar, TypedDict

from tfzoo.base.registry import DatasetSpec, TokenizerSpec
from tfzoo.base.values import check_range
from tfzoo.data.classification_batch import Vocabulary
from tfzoo.data.lines import LIMITS, Limits
from tfzoo.data.module import TextData
from tfzoo.data.prepare import Examples, generated
from tfzoo.data.rows import Split
from tfzoo.data.text_source import Columns, TextSource
from tfzoo.data.validation_split import ValidationSplit, hold_out
from tfzoo.errors import BadOption


class TextKeywords(TypedDict, total=False):
    """The options of :class:`SingleTexts`, for the constructor of a subclass that has more."""

    dataset: DatasetSpec | None
    name: str | None
    root: str | None
    train: Split | None
    val: Split | None
    test: Split | dict[str, Split] | None
    delimiter: str
    tokenizer: TokenizerSpec
    max_tokens: int
    max_length: int
    val_fraction: float
    seed: int
    workers: int
    max_line: int
    max_ratio: int
    stream: int | None


class SingleTexts(TextData):
    """Texts that one tokenizer reads.

    Args:
        dataset, name, root, train, val, test: where the text comes from, see
            :class:`~tfzoo.data.text_source.TextSource`. Without ``val``, a fraction of training is
            held out for it.
        delimiter: what separates the columns of a ``.csv``.
        tokenizer: name and options of the tokenizer.
        max_tokens: maximum number of tokens of a batch, with padding.
        max_length: number of tokens of a text that a row holds.
        val_fraction: fraction of training that is held out if there is no ``val``.
        seed: determines the order of batches, what is held out, and the examples of a built-in
            data set.
        workers: processes that make batches; 0: the main process does.
        max_line: the most characters of a line or a cell in a file.
        max_ratio: the most times its size to which a compressed file over 16 MB is unpacked.
        stream: read ``train`` as a stream, in epochs of so many batches of each process
            (:mod:`tfzoo.data.stream`). None: it is prepared as a whole.

    Raises:
        BadOption: a number out of its range, or options that exclude each other.
    """

    streams: ClassVar[bool] = False
    """Whether training can be read as a stream."""

    def __init__(
        self,
        *,
        dataset: DatasetSpec | None = None,
        name: str | None = None,
        root: str | None = None,
        train: Split | None = None,
        val: Split | None = None,
        test: Split | dict[str, Split] | None = None,
        delimiter: str = ",",
        tokenizer: TokenizerSpec = "bpe",
        max_tokens: int = 4096,
        max_length: int = 256,
        val_fraction: float = 0.1,
        seed: int = 0,
        workers: int = 0,
        max_line: int = LIMITS.line,
        max_ratio: int = LIMITS.ratio,
        stream: int | None = None,
    ) -> None:
        super().__init__(
            tokenizer=tokenizer,
            max_tokens=max_tokens,
            max_length=max_length,
            token_dropout=0.0,
            seed=seed,
            workers=workers,
            stream=stream,
        )
        check_range("data.val_fraction", val_fraction, gt=0, lt=1)
        if stream is not None and not self.streams:
            raise BadOption(
                "data.stream: what labels there are is known when all of training is read, so that "
                "text with labels is prepared as a whole; leave it out"
            )
        self.text = TextSource(
            dataset,
            name,
            root,
            train,
            val,
            test,
            delimiter,
            Limits(max_line, max_ratio),
            header=True,
            val_required=False,
            stream=stream is not None,
        )
        self.dataset, self.built_in = dataset or "", self.text.built_in
        self.val_fraction = val_fraction
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

    @property
    def holds_out(self) -> bool:
        """Whether ``val`` is a part of the training text."""
        return isinstance(self.splits["val"], ValidationSplit)

    def _examples(self, made: Columns, columns: Columns, endings: Columns) -> dict[str, Examples]:
        """The rows of each split: the columns ``made`` of a built-in data set; or ``columns`` of
        tables and ``endings`` of pairs of files. Finds files, or copies those at an address; reads
        none.
        """
        if self.built_in is not None:
            return dict(generated(self.dataset, self.seed, made))
        return hold_out(self.text.external(columns, endings), self.val_fraction, self.seed)
