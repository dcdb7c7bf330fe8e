"""The data module of classification: labelled text, from files, the hub or a built-in data set; and
what it shares with those of other labels.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar
from unicodedata import normalize

from tfzoo.base.registry import task_for
from tfzoo.base.values import check_range
from tfzoo.data.batches import ClassificationDataset, TokenDropout
from tfzoo.data.module import EncodedText, TextData
from tfzoo.data.prepare import Integers, Sentences, SplitRead, location, read_split
from tfzoo.data.table import TAB, Pair, TextFormat, list_in
from tfzoo.errors import BadData, BadOption, listing

UNSEEN = "_unseen"
"""Appended to the name of a test set: the part of it whose sequences are not in training."""


class LabelledText(TextData):
    """Batches of texts, each with a label. A subclass says what the labels in a cell are
    (:meth:`labels_of`, :meth:`check_labels`, :meth:`label_cells`) and what batches have of them
    (:meth:`targets`).

    Where the text comes from: :class:`~tfzoo.data.module.TextData`. Files of lines are
    ``train.text`` and ``train.label``, rows ``(text, label)``. Without ``val``, a fraction of
    training is held out for it, exactly as many examples as that is, rounded. Which ones depends on
    the seed and the texts alone; a repeated text is on one side only, so the number is off where
    whole texts cannot make it up. Training skips sequences without a token and uses all others, the
    first ``max_length`` tokens of each; both numbers are printed. A test set that shares sequences
    with training is also scored without them, as ``<name>_unseen``.

    Args:
        text_column, label_column: columns of a table, keys of rows, or endings of the two files of
            lines. Other columns are ignored. Two text columns, ``["premise", "hypothesis"]``, hold
            pairs of texts, which are read from tables and rows: a text is then
            ``first<TAB>second``, and its tokens are those of both, with EOS between them.
        max_length: number of tokens of a sequence that are used, without EOS.
        token_dropout: fraction of the tokens that training replaces by the unknown token.

    Raises:
        BadOption, BadData: as :class:`~tfzoo.data.module.TextData`.
    """

    unit = "example"
    labelled = True
    label_cells: ClassVar[type[str]] = str
    """What the column of labels may hold besides text: a class of :mod:`tfzoo.data.table`."""

    def __init__(
        self,
        *,
        text_column: str | list[str] = "text",
        label_column: str = "label",
        token_dropout: float = 0.0,
        **text: Any,
    ) -> None:
        super().__init__(**text)
        check_range("data.token_dropout", token_dropout, ge=0, lt=1)
        self.token_dropout = token_dropout
        if self.built_in is not None and not hasattr(self.built_in, "labels"):
            raise BadOption(f"dataset {self.built_in.entry.name!r} has no labels")
        names = getattr(self.built_in, "text_columns", text_column)
        columns = column_of(names), self.label_cells(label_column)
        self.form = TextFormat(columns, columns)
        each = self.form.names
        if len({*each}) < len(each):
            raise BadOption(
                f" and data.label_column name a column twice: {', '.join(each)}",
                key="data.text_column",
            )
        self.cut: dict[str, int] = {}
        """By split, the sequences of which only the first ``max_length`` tokens are used."""

    @property
    def labels(self) -> list[str]:
        """The labels as the data has them; class k is ``labels[k]``. None where they are no names.

        Raises:
            BadOption: before ``prepare_data``.
        """
        return list(self.vocabulary.labels)

    def describe(self) -> str:
        """The size of each split, and the labels."""
        count = len(self.labels)
        labels = f"\n{count:,} label{'s' * (count != 1)}: {listing(self.labels)}"
        return super().describe() + labels * bool(count)

    def _read_splits(self) -> dict[str, SplitRead]:
        """Also count what each test set shares with training, and make a test set of the rest."""
        if self._vocabulary and self.vocabulary.pairs != isinstance(self.form.columns[0], Pair):
            reads, names = ("pairs of", "one") if self.vocabulary.pairs else ("single", "two")
            raise BadOption(f"the model reads {reads} texts, and data.text_column names {names}")
        read = super()._read_splits()
        seen = read["train"].known | {text for text, _ in read["val"].rows if self.holds_out}
        for name in self.test_names:
            new = [row for row in read[name].rows if row[0] not in seen]
            self.overlap[name] = read[name].examples - len(new)
            unseen = name + UNSEEN
            if new and self.overlap[name]:
                if unseen in self.splits:
                    raise BadOption(
                        f": {unseen!r} is the part of {name!r} that is not in training; give that "
                        "test set another name",
                        key="data.test",
                    )
                self.splits[unseen] = new
                read[unseen] = read_split(new, unseen, cells=True)
                self.overlap[unseen] = 0
        return read

    def labels_in(self, read: Mapping[str, SplitRead]) -> list[str]:
        """Those of training and of what is held out of it, in order; numbers in theirs."""
        cells = {*read["train"].cells, *(read["val"].cells if self.holds_out else ())}
        found = {label for cell in cells for label in self.labels_of(cell)}
        labels = sorted(label for label in found if label.strip())
        if all(label.isdecimal() for label in labels):
            labels.sort(key=int)
        self.check_labels(labels)
        return labels

    def set_of(self, name: str, text: EncodedText) -> ClassificationDataset:
        """Training leaves out texts without a token. Counts those that are cut."""
        special, p = self.vocabulary.special, self.token_dropout if name == "train" else 0.0
        made = self.data_set(
            name,
            text.columns,
            self.targets(name, text.cells),
            max_length=self.max_length,
            special=special,
            lines=[line for line, _ in text.lines],
            dropout=TokenDropout(p, self.seed, special),
        )
        if name == "train":
            between = len(special.sep) if made.pairs else 0
            made.rows = self.kept({"without a token": made.sequences.lengths <= between})
        if cut := int((made.sequences.lengths > self.max_length).sum()):
            self.cut[name] = cut
        return made

    def data_set(
        self, name: str, columns: Sequence[Sentences], labels: Any, **reading: Any
    ) -> ClassificationDataset:
        """A split, of its encoded columns and its :meth:`targets`."""
        (ids,), pairs = columns, self.vocabulary.pairs
        return ClassificationDataset(ids, labels, pairs=pairs, **reading)

    def labels_of(self, cell: str) -> Iterable[str]:
        """The labels in a cell to which the vocabulary gives numbers; none where labels are no
        names.
        """
        return ()

    def check_labels(self, labels: Sequence[str]) -> None:
        """Raise BadData if these, all of training and of what is held out of it, are not enough."""

    def targets(self, name: str, cells: Sequence[str]) -> Any:
        """What batches have of the cells of labels of a split; BadData names the place of one that
        cannot be.
        """
        raise NotImplementedError

    def label_ids(self, name: str, cells: Sequence[str]) -> Sentences:
        """The numbers of the labels in each cell of a split, which are all those of training."""
        labels = self.vocabulary.labels
        number = {normalize("NFC", label): k for k, label in enumerate(labels)}
        try:
            ids = {cell: [number[label] for label in self.labels_of(cell)] for cell in {*cells}}
        except KeyError:
            row, label = next(
                (row, label)
                for row, cell in enumerate(cells)
                for label in self.labels_of(cell)
                if label not in number
            )
            what = f"the label {label!r} is not one of the labels of training: {listing(labels)}"
            where = location(self.splits[name], row, name)
            raise BadData(f"{where}: {what if label.strip() else 'no label'}") from None
        return Sentences.of([ids[cell] for cell in cells])

    def _remarks(self) -> list[str]:
        remarks = super()._remarks()
        if self.cut:
            sizes = {name: len(self.sets[name]) for name in self.cut}
            cut = ", ".join(f"{n:,} of {sizes[name]:,} in {name}" for name, n in self.cut.items())
            remarks.append(
                f"only the first {self.max_length} tokens of long "
                f"{'pairs, of both texts,' if self.vocabulary.pairs else 'sequences'} are used "
                f"(data.max_length): {cut}"
            )
        return remarks


def column_of(names: str | Sequence[str]) -> str:
    """The column of texts, or both columns of pairs of texts, that the option names."""
    each = [names] if isinstance(names, str) else [*names]
    if len(each) not in (1, 2):
        raise BadOption(
            f"data.text_column takes one column, or two for pairs of texts, not {names!r}"
        )
    return Pair(TAB.join(each)) if len(each) == 2 else each[0]


class ClassificationData(LabelledText):
    """Batches of texts for :class:`tfzoo.ClassificationTask`; a label is the name of a class.
    Where the text comes from and how it is read: :class:`LabelledText`.
    """

    def labels_of(self, cell: str) -> list[str]:
        """The cell in normal form NFC, with a space for each run of spaces and line breaks."""
        return [normalize("NFC", " ".join(cell.split()))]

    def check_labels(self, labels: Sequence[str]) -> None:
        """Raise BadData unless these can be classes: two or more, none of which is a list."""
        where = getattr(self.splits["train"], "path", "train")
        for label in labels:
            if list_in(label, "label", where) is not None:
                raise BadData(
                    f"{where}: the label {label!r} is a list; for several labels of a text, set "
                    f"{task_for('several')}"
                )
        if len(labels) < 2:
            found = f"the only label is {labels[0]!r}" if labels else "no example has a label"
            raise BadData(f"{where}: {found}; a classifier needs two labels")

    def targets(self, name: str, cells: Sequence[str]) -> Integers:
        """The class of each example."""
        return self.label_ids(name, cells).ids
