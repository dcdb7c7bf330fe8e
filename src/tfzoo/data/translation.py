"""Parallel text for a translator: from files or a built-in data set to batches, with one tokenizer or two."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as L
import numpy as np
import torch
from torch.utils.data import DataLoader

from tfzoo.data.batch import Pairs, PairSet, as_is
from tfzoo.data.buckets import Buckets
from tfzoo.data.encoded import Sentences
from tfzoo.data.prepare import Text, encode_split, scan, train_languages
from tfzoo.data.text import find_tests, find_text
from tfzoo.data.tokenizer import Languages
from tfzoo.errors import BadData, BadOption
from tfzoo.registry import DatasetSpec, TokenizerSpec, create


class TranslationData(L.LightningDataModule):
    """Batches of sentence pairs for :class:`tfzoo.TranslationTask`, from parallel text.

    The text is one of

    - ``dataset``: a built-in data set by name, ``"numbers"`` or ``{"name": "numbers", "language": "zh"}``;
    - ``root``: a folder with ``train``, ``val`` and any number of ``test*``, each as ``train.en`` and ``train.de`` (by ``source`` and
      ``target``) or as ``train.tsv``, plain or ``.gz``;
    - ``train``, ``val``, ``test``: paths, relative to ``root`` where that is given: ``corpus/train`` means ``corpus/train.en`` and
      ``corpus/train.de``, a name that ends in ``.tsv`` one file of rows ``source<TAB>target``. Several test sets: ``{name: path}``.

    Tokenizers are trained once on the training split and kept in the cache, like the ids; both are found there as long as text and
    options stay the same. Validation and test use every line. Training skips pairs with an empty side or one over ``max_length``, and
    says how many.

    Args:
        source, target: language codes; en and de, or the data set's own. The reverse of the data set's turns it around.
        tokenizer: name and options of a tokenizer.
        joint: one vocabulary for both languages.
        max_tokens: most tokens of one side of a batch, its padding counted.
        max_length: most tokens of a sentence, without begin and end, for training.
        seed: chooses the order of batches, and what a built-in data set draws.
        workers: processes that make batches; 0: the main process does.

    After preparation ``splits`` holds the text by split, ``sets`` the ids, ``skipped`` how many pairs training leaves out and why,
    and ``overlap``, by test set, how many of its sources are in training too.

    Raises:
        BadOption: options that do not fit together.
        BadData: in ``prepare_data`` and ``setup``: text that is missing or bad; the message names file and line.
    """

    def __init__(
        self,
        *,
        dataset: DatasetSpec | None = None,
        root: str | None = None,
        source: str | None = None,
        target: str | None = None,
        train: str | None = None,
        val: str | None = None,
        test: str | dict[str, str] | None = None,
        tokenizer: TokenizerSpec = "bpe",
        joint: bool = True,
        max_tokens: int = 4096,
        max_length: int = 256,
        seed: int = 0,
        workers: int = 0,
    ) -> None:
        super().__init__()
        if (dataset is None) == (root is None and train is None):
            raise BadOption("data needs its text from one place: data.dataset, data.root, or data.train and data.val")
        if dataset is not None and not train is val is test is None:
            raise BadOption("data.train, data.val and data.test are paths; data.dataset brings splits of its own")
        for name, value, least in (("max_tokens", max_tokens, 1), ("max_length", max_length, 1), ("workers", workers, 0)):
            if value < least:
                raise BadOption(f"data.{name} is {value}; the least is {least}")
        create("tokenizer", tokenizer)  # refuses bad options now, not after reading
        self.made = None if dataset is None else create("dataset", dataset)
        self.direction = direction(None if self.made is None else self.made.languages, source, target)
        self.root = None if root is None else Path(root).expanduser()
        self.paths = {"train": train, "val": val}
        self.tests = {Path(test).name.removesuffix(".gz").removesuffix(".tsv"): test} if isinstance(test, str) else test
        for name in ("train", "val"):
            if self.tests is not None and name in self.tests:
                raise BadOption(f"data.test: a test set cannot be named {name!r}")
        self.tokenizer, self.joint = tokenizer, joint
        self.max_tokens, self.max_length, self.seed, self.workers = max_tokens, max_length, seed, workers
        self._languages: Languages | None = None
        self.splits: dict[str, Text] = {}
        self.sets: dict[str, PairSet] = {}
        self.overlap: dict[str, int] = {}
        self.skipped: dict[str, int] = {}

    def prepare_data(self) -> None:
        """Check the text, train tokenizers or find them in the cache, tokenize; say on stderr what training skips. Done once."""
        if self.sets:
            return
        self._prepare()
        if self.skipped:
            print(f"data: training skips {skips(self.skipped)}", file=sys.stderr)

    def setup(self, stage: str | None = None) -> None:
        """Open what :meth:`prepare_data` left in the cache, in each process."""
        if not self.sets:
            self._prepare()

    @property
    def languages(self) -> Languages:
        """The tokenizers, once ``prepare_data`` or ``setup`` has run. Those of a trained translator can be set before, and are then used.

        Raises:
            BadOption: none yet.
        """
        if self._languages is None:
            raise BadOption("data.languages is known after data.prepare_data()")
        return self._languages

    @languages.setter
    def languages(self, languages: Languages) -> None:
        self._languages = languages
        self.sets = {}  # of other ids

    @property
    def test_names(self) -> list[str]:
        """The test sets, in the order of :meth:`test_dataloader`."""
        return [name for name in self.splits if name not in ("train", "val")]

    def train_dataloader(self) -> DataLoader[Pairs]:
        """Batches of the epoch that the Trainer is in, those of this process."""
        return self._loader("train", shuffle=True)

    def val_dataloader(self) -> DataLoader[Pairs]:
        """All pairs of ``val`` with their texts, the longest first."""
        return self._loader("val", shuffle=False)

    def test_dataloader(self) -> list[DataLoader[Pairs]]:
        """One loader for each of :attr:`test_names`, like ``val``'s."""
        return [self._loader(name, shuffle=False) for name in self.test_names]

    def describe(self) -> str:
        """What was read, in a line for each split; for the beginning of a training."""
        train = self.sets["train"]
        batches = self._buckets("train", shuffle=True)
        note = f"; skipped: {skips(self.skipped)}" if self.skipped else ""
        lines = [f"train {len(train):,} pairs, {len(batches):,} batches an epoch, padding {batches.padding():.1%}{note}"]
        lines += [f"val {len(self.sets['val']):,} pairs"]
        lines += [f"{name} {len(self.sets[name]):,} pairs, {self.overlap[name]:,} of their sources in training" for name in self.test_names]
        return "\n".join(lines)

    def _prepare(self) -> None:
        self.splits = self._texts()
        held = {name: list(text) for name, text in self.splits.items() if name != "train"}
        tested = frozenset(source for name in self.test_names for source, _ in held[name])
        read = {"train": scan(self.splits["train"], "train", tested)} | {name: scan(text, name) for name, text in held.items()}
        self.overlap = {name: sum(source in read["train"].known for source, _ in held[name]) for name in self.test_names}
        if self._languages is None:
            self._languages = train_languages(self.splits["train"], read["train"], self.direction, self.tokenizer, self.joint)
        sets = {}
        for name, text in self.splits.items():
            source, target = encode_split(text, read[name], self._languages, name)
            sets[name] = PairSet(source, target, np.arange(len(source)), held.get(name, []))
        self._choose(sets["train"])
        self.sets = sets

    def _choose(self, train: PairSet) -> None:
        """Leave out of training what is empty or too long."""
        shorter, longer = (f(train.source.lengths, train.target.lengths) for f in (np.minimum, np.maximum))
        empty, long = shorter == 0, (shorter > 0) & (longer > self.max_length)
        counts = {"with an empty side": int(empty.sum()), f"over {self.max_length} tokens": int(long.sum())}
        self.skipped = {why: count for why, count in counts.items() if count}
        train.rows = np.flatnonzero(~(empty | long))
        if len(train) == 0:
            raise BadData(f"train: no pair is left; skipped: {skips(self.skipped)} (data.max_length)")

    def _texts(self) -> dict[str, Text]:
        """The text of each split; finds files, reads none."""
        source, target = self.direction
        if self.made is not None:
            made: dict[str, list[tuple[str, str]]] = self.made.splits(self.seed)
            turn = slice(None, None, 1 if self.made.languages == self.direction else -1)
            return {name: [(pair[turn][0], pair[turn][1]) for pair in pairs] for name, pairs in made.items()}
        root = self.root or Path()
        texts: dict[str, Text] = {}
        for name, path in self.paths.items():
            if path is None and self.root is None:
                raise BadOption(f"data.{name} is not given, nor data.root, a folder to find it in")
            texts[name] = find_text(root / (path or name), source, target)
        if self.tests is None:
            return texts | (find_tests(root, source, target) if self.root else {})
        return texts | {name: find_text(root / path, source, target) for name, path in self.tests.items()}

    def _buckets(self, split: str, *, shuffle: bool) -> Buckets:
        pairs = self.sets[split]
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        lengths = pairs.source.lengths[pairs.rows], pairs.target.lengths[pairs.rows]
        return Buckets(*lengths, self.max_tokens, seed=self.seed, rank=rank, world=world, shuffle=shuffle)

    def _loader(self, split: str, *, shuffle: bool) -> DataLoader[Pairs]:
        return DataLoader(
            self.sets[split],
            batch_sampler=self._buckets(split, shuffle=shuffle),
            collate_fn=as_is,  # type: ignore[arg-type]  # it gets what __getitems__ gives, a batch
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=torch.cuda.is_available(),
        )


def direction(own: tuple[str, str] | None, source: str | None, target: str | None) -> tuple[str, str]:
    """The languages to translate from and to; ``own`` are those of a data set, which can be turned around.

    Raises:
        BadOption: one and the same language, or one that the data set does not have.
    """
    first, second = own or ("en", "de")
    chosen = source or first, target or second
    if chosen[0] == chosen[1]:
        raise BadOption(f"data.source and data.target are both {chosen[0]!r}; give both, such as source: {second}, target: {first}")
    if own is not None and set(chosen) != set(own):
        raise BadOption(f"data.source {chosen[0]!r} and data.target {chosen[1]!r}: the data set has {first} and {second}")
    return chosen


def skips(counts: Mapping[str, int]) -> str:
    """``"3 pairs with an empty side, 1 pair over 256 tokens"``"""
    return ", ".join(f"{count:,} pair{'s' * (count != 1)} {why}" for why, count in counts.items())


def translation_batches(lines: Sequence[str], languages: Languages, max_tokens: int = 4096, longest: int | None = None) -> Iterator[Pairs]:
    """Lines to translate, in batches of like length of at most ``max_tokens`` source tokens, the longest first.

    Every line is there, also an empty one (its source is the end alone) and one that is longer than ``max_tokens`` (a batch of its own);
    ``index`` tells its place. ``target`` is begin alone. A model that can read no more than ``longest`` tokens is
    given the beginning of a longer line.
    """
    if not lines:
        return
    ids = languages.source.encode([line if line.strip() else "" for line in lines])
    if longest is not None:
        ids = [sentence[: longest - 1] for sentence in ids]  # one is for the end
    source, target = Sentences.of(ids), Sentences.of([[]] * len(lines))
    pairs = PairSet(source, target, np.arange(len(lines)))
    for rows in Buckets(source.lengths, target.lengths, max_tokens, shuffle=False):
        batch = pairs[rows]
        begin = batch.target[:, :1]
        yield replace(batch, target=begin, real=batch.real[:0], source_text=[lines[i] for i in batch.index])
