"""Labelled text for a classifier: from files, a built-in data set or one of Hugging Face's hub to
batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfzoo.data.classification_batch import (
    Classes,
    ClassificationBatch,
    ClassificationDataset,
    Vocabulary,
)
from tfzoo.data.encoded import Integers, Sentences
from tfzoo.data.hub import hub_texts
from tfzoo.data.length_bucketed_sampler import LengthBucketedSampler
from tfzoo.data.module import TextData, test_paths
from tfzoo.data.parallel_batch import listed
from tfzoo.data.prepare import (
    Scan,
    Text,
    distinct,
    drawn,
    encode_lines,
    full,
    place,
    scan,
    train_tokenizer,
)
from tfzoo.data.table import FORMS
from tfzoo.data.text import find_tests, find_text
from tfzoo.data.validation_split import ValidationSplit
from tfzoo.data.word_dropout import WordDropout
from tfzoo.errors import BadData, BadOption, listing
from tfzoo.registry import DatasetSpec, TokenizerSpec, create

__all__ = ["ClassificationBatch", "ClassificationData", "Vocabulary", "text_batches"]

UNSEEN = "_unseen"
"""What is added to the name of a test set for the part of it that is not in training too."""


class ClassificationData(TextData):
    """Batches of labelled texts for :class:`tfzoo.ClassificationTask`.

    The text is one of

    - ``dataset``: a built-in data set by name, ``"listops"`` or ``{"name": "listops", "depth":
      4}``;
    - ``name``: a data set of Hugging Face's hub, ``"owner/name"`` or ``"owner/name:config"``;
      ``train``, ``val`` and ``test`` then name splits;
    - ``root``: a folder with ``train``, perhaps ``val``, and any number of ``test*``, each a table
      with a row of names (``train.tsv``, ``.csv``, ``.jsonl``, ``.parquet``) or two files of lines
      (``train.text`` and ``train.label``), plain or ``.gz``;
    - ``train``, ``val``, ``test``: paths of such, relative to ``root`` where that is given. Several
      test sets: ``{name: path}``.

    Without ``val``, a share of training is cut off for it: which texts these are is a function of
    the seed and the text, so that a repeated text is on one side alone. Tokenizer and ids are kept
    in the cache. Training skips texts without a token; all others are used, the first
    ``max_length`` tokens of each; both are counted and told. A test set that has texts of training
    in it is also scored without them, as ``<name>_unseen``.

    Args:
        text_column, label_column: names of columns, or endings of the two files of lines.
        tokenizer: name and options of a tokenizer.
        max_tokens: most tokens of a batch, its padding counted.
        max_length: tokens of a text that are used, its end not counted.
        word_dropout: share of tokens that become the unknown token while training.
        val_fraction: share of training that is cut off where there is no ``val``.
        seed: chooses the order of batches, the cut, and what a built-in data set draws.
        workers: processes that make batches; 0: the main process does.

    Raises:
        BadOption: options that do not fit together.
        BadData: in ``prepare_data`` and ``setup``: text that is missing or bad; the message names
            file and line.
    """

    unit = "text"

    def __init__(
        self,
        *,
        dataset: DatasetSpec | None = None,
        name: str | None = None,
        root: str | None = None,
        train: str | None = None,
        val: str | None = None,
        test: str | dict[str, str] | None = None,
        text_column: str = "text",
        label_column: str = "label",
        tokenizer: TokenizerSpec = "bpe",
        max_tokens: int = 4096,
        max_length: int = 256,
        word_dropout: float = 0.0,
        val_fraction: float = 0.1,
        seed: int = 0,
        workers: int = 0,
    ) -> None:
        super().__init__(
            tokenizer=tokenizer,
            max_tokens=max_tokens,
            max_length=max_length,
            word_dropout=word_dropout,
            seed=seed,
            workers=workers,
        )
        if (
            sum(
                (
                    dataset is not None,
                    name is not None,
                    root is not None or (train is not None and name is None),
                )
            )
            != 1
        ):
            raise BadOption(
                "data needs its text from one place: data.dataset, data.name, data.root, or data.train"
            )
        if dataset is not None and not train is val is test is None:
            raise BadOption(
                "data.train, data.val and data.test are paths; data.dataset brings splits of its own"
            )
        if text_column == label_column:
            raise BadOption(f"data.text_column and data.label_column are both {text_column!r}")
        if not 0 < val_fraction < 1:
            raise BadOption(
                f"data.val_fraction is {val_fraction}; it is a share of training, between 0 and 1"
            )
        self.dataset, self.made = (
            dataset or "",
            None if dataset is None else create("dataset", dataset),
        )
        if self.made is not None and not hasattr(self.made, "labels"):
            raise BadOption(
                f"dataset {self.made.entry.name!r} has translations, no labelled texts to classify"
            )
        self.root = None if root is None else Path(root).expanduser()
        self.name = name
        self.train, self.val, self.tests = train, val, test_paths(test, tuple(FORMS))
        self.columns = text_column, label_column
        self.val_fraction = val_fraction
        self._vocabulary: Vocabulary | None = None
        self.sets: dict[str, ClassificationDataset] = {}
        self.cut: dict[str, int] = {}

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer and the labels, once ``prepare_data`` or ``setup`` has run. Those of a
        trained classifier can be set before.

        Raises:
            BadOption: none yet.
        """
        if self._vocabulary is None:
            raise BadOption("data.vocabulary is known after data.prepare_data()")
        return self._vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.sets = {}  # of other ids

    @property
    def labels(self) -> list[str]:
        """The labels as the data writes them; class k is the one at place k."""
        return self.vocabulary.labels

    @property
    def label_counts(self) -> list[int]:
        """The training texts of each class."""
        train = self.sets["train"]
        counts: list[int] = np.bincount(
            train.classes[train.rows], minlength=len(self.labels)
        ).tolist()
        return counts

    @property
    def baselines(self) -> dict[str, float]:
        """What is right of ``test`` for one who reads nothing, and what the built-in data set knows
        besides.
        """
        if "test" not in self.sets:
            return {}
        most = int(np.argmax(self.label_counts))
        found = {"majority": float((np.asarray(self.sets["test"].classes) == most).mean())}
        if self.made is not None and hasattr(self.made, "baselines"):
            found |= self.made.baselines(self.splits["train"], self.splits["test"])
        return found

    def describe(self) -> str:
        """What was read, in a line for each split, and the labels."""
        cut = (
            f"\nval is a part of training, cut off (data.val_fraction {self.val_fraction:g})"
            if self._is_cut
            else ""
        )
        return f"{super().describe()}{cut}\n{len(self.labels):,} labels: {listing(self.labels)}"

    @property
    def _is_cut(self) -> bool:
        """Whether ``val`` is a part of training's text."""
        return isinstance(self.splits["val"], ValidationSplit)

    def _prepare(self) -> None:
        self.splits = self._texts()
        for name in self.test_names:
            if name + UNSEEN in self.splits:
                raise BadData(
                    f"a test set cannot be named {name + UNSEEN!r}: so is the part of {name!r} that is not in training"
                )
        held = {name: list(text) for name, text in self.splits.items() if name != "train"}
        tested = frozenset(text for name in self.test_names for text, _ in held[name])
        read = {"train": scan(self.splits["train"], "train", tested)} | {
            name: scan(text, name) for name, text in held.items()
        }
        self.content = f"{read['train'].source} {read['train'].target}"
        self.returns = {name: one.returns for name, one in read.items()}
        seen = read["train"].known | ({text for text, _ in held["val"]} if self._is_cut else set())
        self.overlap = {
            name: sum(text in seen for text, _ in held[name]) for name in self.test_names
        }
        for name in [name for name in self.test_names if 0 < self.overlap[name] < len(held[name])]:
            new = [row for row in held[name] if row[0] not in seen]
            name += UNSEEN
            self.splits[name], held[name], read[name], self.overlap[name] = (
                new,
                new,
                scan(new, name),
                0,
            )
        if self._vocabulary is None:
            train = self.splits["train"]
            tokenizer = train_tokenizer(
                (text for text, _ in train),
                read["train"].source,
                self.tokenizer,
                read["train"].pairs,
            )
            self._vocabulary = Vocabulary(tokenizer, self._labels(read), self.tokenizer)
        made_by, dropout = full(self._vocabulary.spec), WordDropout(self.word_dropout, self.seed)
        sets = {}
        for name, text in self.splits.items():
            ids = encode_lines(
                (line for line, _ in text),
                read[name].source,
                self._vocabulary.tokenizer,
                made_by,
                name,
                read[name].pairs,
            )
            classes = self._classes(name, text, read[name].target, read[name].pairs)
            lines = [line for line, _ in held.get(name, [])]
            sets[name] = ClassificationDataset(
                ids,
                classes,
                np.arange(len(ids)),
                self.max_length,
                lines,
                dropout=dropout if name == "train" else None,
            )
        self._choose(sets)
        self.sets = sets

    def _choose(self, sets: Mapping[str, ClassificationDataset]) -> None:
        """Leave out of training what has no token, and count what is cut."""
        train = sets["train"]
        train.rows = np.flatnonzero(train.texts.lengths)
        empty = len(train.texts) - len(train)
        self.skipped = {"without a token": empty} if empty else {}
        if len(train) == 0:
            raise BadData(f"train: no text is left; skipped: {self._skips()}")
        cut = {
            name: int((texts.texts.lengths > self.max_length).sum()) for name, texts in sets.items()
        }
        self.cut = {name: count for name, count in cut.items() if count}

    def _remarks(self) -> list[str]:
        cut = ", ".join(
            f"{count:,} of {len(self.sets[name]):,} in {name}" for name, count in self.cut.items()
        )
        untrained = [
            label for label, count in zip(self.labels, self.label_counts, strict=True) if not count
        ]
        return [
            *super()._remarks(),
            *(
                [
                    f"only the first {self.max_length} tokens of long texts are used (data.max_length): {cut}"
                ]
                if cut
                else []
            ),
            *([f"no text of training has these labels: {listing(untrained)}"] if untrained else []),
        ]

    def _labels(self, read: Mapping[str, Scan]) -> list[str]:
        """The labels of training, sorted; also those that only the part has which was cut off for
        ``val``.
        """
        parts = ("train", "val") if self._is_cut else ("train",)
        labels = distinct(
            (label for part in parts for _, label in self.splits[part]),
            " ".join(read[part].target for part in parts),
        )
        labels = [label for label in labels if label.strip()]
        for label in labels:
            if label != label.strip() or len(label.splitlines()) > 1:
                part, row = next(
                    (part, i)
                    for part in parts
                    for i, pair in enumerate(self.splits[part])
                    if pair[1] == label
                )
                raise BadData(
                    f"{place(self.splits[part], row, part)}: the label {label!r} has spaces around it, or more than one line"
                )
        if len(labels) < 2:
            where = getattr(self.splits["train"], "path", "train")
            raise BadData(
                f"{where}: {f'every text has the label {labels[0]!r}' if labels else 'no text has a label'}; a classifier needs two"
            )
        return labels

    def _classes(self, name: str, text: Text, content: str, count: int) -> Integers:
        """The class of each text of a split."""
        try:
            return encode_lines(
                (label for _, label in text), content, Classes(self.labels), "classes", name, count
            ).ids
        except KeyError:
            row, label = next(
                (i, label) for i, (_, label) in enumerate(text) if label not in self.labels
            )
            what = (
                f"the label {label!r} is not among those of training: {listing(self.labels)}"
                if label.strip()
                else "no label"
            )
            raise BadData(f"{place(text, row, name)}: {what}") from None

    def _texts(self) -> dict[str, Text]:
        """The text of each split; finds files, reads none."""
        if self.made is not None:
            return dict(drawn(self.dataset, self.seed, self.columns))
        if self.name is not None:
            return self._with_val(
                dict(hub_texts(self.name, self.columns, self.train, self.val, self.tests))
            )
        root = self.root or Path()
        texts: dict[str, Text] = {"train": self._find(root / (self.train or "train"))}
        if self.val is not None or (self.root is not None and any(root.glob("val.*"))):
            texts["val"] = self._find(root / (self.val or "val"))
        if self.tests is not None:
            texts |= {name: self._find(root / path) for name, path in self.tests.items()}
        elif self.root is not None:
            texts |= find_tests(root, *self.columns, header=True)
        return self._with_val(texts)

    def _with_val(self, texts: dict[str, Text]) -> dict[str, Text]:
        """These splits, with a part of training cut off for ``val`` where there is none."""
        if "val" in texts:
            return texts
        whole = texts["train"]
        return texts | {
            name: ValidationSplit(whole, self.val_fraction, self.seed, held=name == "val")
            for name in ("train", "val")
        }

    def _find(self, path: Path) -> Text:
        return find_text(path, *self.columns, header=True)


def text_batches(
    lines: Iterable[str],
    vocabulary: Vocabulary,
    max_tokens: int = 4096,
    longest: int | None = None,
    cut: Callable[[int], object] | None = None,
) -> Iterator[ClassificationBatch]:
    """Lines to classify, in batches of like length of at most ``max_tokens`` tokens, the longest
    first.

    Every line is there, also an empty one (its text is the end alone) and one that is longer than
    ``max_tokens`` (a batch of its own); ``index`` tells its place. ``label`` is empty. A model that
    can read no more than ``longest`` tokens, the end counted, is given the beginning of a longer
    line; ``cut`` is told how many these are.
    """
    lines = listed(lines)
    if not lines:
        return
    texts = Sentences.of(
        vocabulary.tokenizer.encode([line if line.strip() else "" for line in lines])
    )
    most = int(texts.lengths.max()) if longest is None else longest - 1  # one is for the end
    if cut is not None:
        cut(int((texts.lengths > most).sum()))
    whole = ClassificationDataset(texts, np.zeros(0, np.int64), np.arange(len(lines)), most)
    widths, same = whole.widths()
    for rows in LengthBucketedSampler(widths, same, max_tokens, shuffle=False):
        batch = whole[rows]
        yield replace(batch, source_text=[lines[i] for i in batch.index])
