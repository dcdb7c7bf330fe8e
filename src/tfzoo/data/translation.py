"""Parallel text for a translator: from files or a built-in data set to batches, with one tokenizer
or two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfzoo.data.encoded import Sentences
from tfzoo.data.hub import hub_texts
from tfzoo.data.length_bucketed_sampler import LengthBucketedSampler
from tfzoo.data.module import TextData, test_paths
from tfzoo.data.parallel_batch import ParallelBatch, ParallelDataset, listed
from tfzoo.data.prepare import Text, encode_split, scan, train_languages
from tfzoo.data.table import FORMS
from tfzoo.data.text import find_tests, find_text
from tfzoo.data.tokenizer import TokenizerPair
from tfzoo.data.word_dropout import WordDropout
from tfzoo.errors import BadData, BadOption
from tfzoo.registry import DatasetSpec, TokenizerSpec, create


class TranslationData(TextData):
    """Batches of sentence pairs for :class:`tfzoo.TranslationTask`, from parallel text.

    The text is one of

    - ``dataset``: a built-in data set by name, ``"numbers"`` or ``{"name": "numbers", "language":
      "zh"}``;
    - ``name``: a data set of Hugging Face's hub, ``"owner/name"`` or ``"owner/name:config"``;
      ``train``, ``val`` and ``test`` then name splits;
    - ``root``: a folder with ``train``, ``val`` and any number of ``test*``, each as ``train.en``
      and ``train.de`` (by ``source`` and ``target``) or as a table, ``train.tsv``, ``.csv``,
      ``.jsonl`` or ``.parquet``, plain or ``.gz``; a ``.tsv`` needs no row of names;
    - ``train``, ``val``, ``test``: paths of such, relative to ``root`` where that is given:
      ``corpus/train`` means ``corpus/train.en`` and ``corpus/train.de``, ``corpus/train.tsv`` a
      table. Several test sets: ``{name: path}``.

    Tokenizers are trained once on the training split and kept in the cache, like the ids; both are
    found there as long as text and options stay the same. Validation and test use every line.
    Training skips pairs with an empty side or one over ``max_length``, and says how many.

    Args:
        source, target: language codes; en and de, or the data set's own. The reverse of the data
            set's turns it around.
        source_column, target_column: names of columns in a table; the language codes, unless they
            are given.
        tokenizer: name and options of a tokenizer.
        joint: one vocabulary for both languages.
        max_tokens: most tokens of one side of a batch, its padding counted.
        max_length: most tokens of a sentence, without begin and end, for training.
        word_dropout: share of the source's tokens that become the unknown token while training.
        seed: chooses the order of batches, and what a built-in data set draws.
        workers: processes that make batches; 0: the main process does.

    After preparation ``splits`` holds the text by split, ``sets`` the ids, ``skipped`` how many
    pairs training leaves out and why, and ``overlap``, by test set, how many of its sources are in
    training too.

    Raises:
        BadOption: options that do not fit together.
        BadData: in ``prepare_data`` and ``setup``: text that is missing or bad; the message names
            file and line.
    """

    unit = "pair"

    def __init__(
        self,
        *,
        dataset: DatasetSpec | None = None,
        name: str | None = None,
        root: str | None = None,
        source: str | None = None,
        target: str | None = None,
        source_column: str | None = None,
        target_column: str | None = None,
        train: str | None = None,
        val: str | None = None,
        test: str | dict[str, str] | None = None,
        tokenizer: TokenizerSpec = "bpe",
        joint: bool = True,
        max_tokens: int = 4096,
        max_length: int = 256,
        word_dropout: float = 0.0,
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
                "data needs its text from one place: data.dataset, data.name, data.root, or data.train and data.val"
            )
        if dataset is not None and not train is val is test is None:
            raise BadOption(
                "data.train, data.val and data.test are paths; data.dataset brings splits of its own"
            )
        self.made = None if dataset is None else create("dataset", dataset)
        if self.made is not None and not hasattr(self.made, "languages"):
            raise BadOption(
                f"dataset {self.made.entry.name!r} has labelled texts to classify, no translations"
            )
        self.direction = direction(
            None if self.made is None else self.made.languages, source, target
        )
        self.columns = source_column or self.direction[0], target_column or self.direction[1]
        self.name, self.root = name, None if root is None else Path(root).expanduser()
        self.paths = {"train": train, "val": val}
        self.tests = test_paths(test, tuple(FORMS))
        self.joint = joint
        self._languages: TokenizerPair | None = None
        self.sets: dict[str, ParallelDataset] = {}

    @property
    def languages(self) -> TokenizerPair:
        """The tokenizers, once ``prepare_data`` or ``setup`` has run. Those of a trained translator
        can be set before, and are then used.

        Raises:
            BadOption: none yet.
        """
        if self._languages is None:
            raise BadOption("data.languages is known after data.prepare_data()")
        return self._languages

    @languages.setter
    def languages(self, languages: TokenizerPair) -> None:
        self._languages = languages
        self.sets = {}  # of other ids

    def _prepare(self) -> None:
        self.splits = self._texts()
        held = {name: list(text) for name, text in self.splits.items() if name != "train"}
        tested = frozenset(source for name in self.test_names for source, _ in held[name])
        read = {"train": scan(self.splits["train"], "train", tested)} | {
            name: scan(text, name) for name, text in held.items()
        }
        self.content = f"{read['train'].source} {read['train'].target}"
        self.returns = {name: one.returns for name, one in read.items()}
        self.overlap = {
            name: sum(source in read["train"].known for source, _ in held[name])
            for name in self.test_names
        }
        if self._languages is None:
            self._languages = train_languages(
                self.splits["train"], read["train"], self.direction, self.tokenizer, self.joint
            )
        sets, dropout = {}, WordDropout(self.word_dropout, self.seed)
        for name, text in self.splits.items():
            source, target = encode_split(text, read[name], self._languages, name)
            sets[name] = ParallelDataset(
                source,
                target,
                np.arange(len(source)),
                held.get(name, []),
                dropout if name == "train" else None,
            )
        self._choose(sets["train"])
        self.sets = sets

    def _choose(self, train: ParallelDataset) -> None:
        """Leave out of training what is empty or too long."""
        shorter, longer = (
            f(train.source.lengths, train.target.lengths) for f in (np.minimum, np.maximum)
        )
        empty, long = shorter == 0, (shorter > 0) & (longer > self.max_length)
        counts = {
            "with an empty side": int(empty.sum()),
            f"over {self.max_length} tokens": int(long.sum()),
        }
        self.skipped = {why: count for why, count in counts.items() if count}
        train.rows = np.flatnonzero(~(empty | long))
        if len(train) == 0:
            raise BadData(f"train: no pair is left; skipped: {self._skips()} (data.max_length)")

    def _texts(self) -> dict[str, Text]:
        """The text of each split; finds files, reads none."""
        source, target = self.direction
        if self.made is not None:
            made: dict[str, list[tuple[str, str]]] = self.made.splits(self.seed)
            turn = slice(None, None, 1 if self.made.languages == self.direction else -1)
            return {
                name: [(pair[turn][0], pair[turn][1]) for pair in pairs]
                for name, pairs in made.items()
            }
        if self.name is not None:
            found = hub_texts(
                self.name, self.columns, self.paths["train"], self.paths["val"], self.tests
            )
            if "val" not in found:
                raise BadOption(f"data.val is not given, and {self.name} has no split of that name")
            return dict(found)
        root = self.root or Path()
        texts: dict[str, Text] = {}
        for name, path in self.paths.items():
            if path is None and self.root is None:
                raise BadOption(f"data.{name} is not given, nor data.root, a folder to find it in")
            texts[name] = find_text(root / (path or name), source, target, self.columns)
        if self.tests is None:
            return texts | (find_tests(root, source, target, self.columns) if self.root else {})
        return texts | {
            name: find_text(root / path, source, target, self.columns)
            for name, path in self.tests.items()
        }


def direction(
    own: tuple[str, str] | None, source: str | None, target: str | None
) -> tuple[str, str]:
    """The languages to translate from and to; ``own`` are those of a data set, which can be turned
    around.

    Raises:
        BadOption: one and the same language, or one that the data set does not have.
    """
    first, second = own or ("en", "de")
    chosen = source or first, target or second
    if chosen[0] == chosen[1]:
        raise BadOption(
            f"data.source and data.target are both {chosen[0]!r}; give both, such as source: {second}, target: {first}"
        )
    if own is not None and set(chosen) != set(own):
        raise BadOption(
            f"data.source {chosen[0]!r} and data.target {chosen[1]!r}: the data set has {first} and {second}"
        )
    return chosen


def translation_batches(
    lines: Iterable[str],
    languages: TokenizerPair,
    max_tokens: int = 4096,
    longest: int | None = None,
) -> Iterator[ParallelBatch]:
    """Lines to translate, in batches of like length of at most ``max_tokens`` source tokens, the
    longest first.

    Every line is there, also an empty one (its source is the end alone) and one that is longer than
    ``max_tokens`` (a batch of its own); ``index`` tells its place. ``target`` is begin alone. A
    model that can read no more than ``longest`` tokens is given the beginning of a longer line.
    """
    lines = listed(lines)
    if not lines:
        return
    ids = languages.source.encode([line if line.strip() else "" for line in lines])
    if longest is not None:
        ids = [sentence[: longest - 1] for sentence in ids]  # one is for the end
    source, target = Sentences.of(ids), Sentences.of([[]] * len(lines))
    pairs = ParallelDataset(source, target, np.arange(len(lines)))
    for rows in LengthBucketedSampler(source.lengths, target.lengths, max_tokens, shuffle=False):
        batch = pairs[rows]
        begin = batch.target[:, :1]
        yield replace(
            batch, target=begin, real=batch.real[:0], source_text=[lines[i] for i in batch.index]
        )
