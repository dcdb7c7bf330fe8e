"""What the data of every task does alike: prepared once, then batches of like length in an order
that follows from the seed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import lightning.pytorch as L
import torch
from torch.utils.data import DataLoader

from tfzoo.data.length_bucketed_sampler import LengthBucketedSampler
from tfzoo.data.parallel_batch import as_is
from tfzoo.data.prepare import Text
from tfzoo.errors import BadOption
from tfzoo.registry import Spec, create


class TextData(L.LightningDataModule):
    """Splits of text and the batches of each. A task's own data says what its text is and what a
    batch holds: :meth:`_prepare`.

    ``splits`` holds the text by split, ``sets`` the ids, ``skipped`` how many items training leaves
    out and why, and ``overlap``, by test set, how many of its texts are in training too.

    Raises:
        BadOption: a size under its least, a share or a seed that is none.
    """

    unit: ClassVar[str]
    """What a line of ``describe`` counts."""

    def __init__(
        self,
        *,
        tokenizer: Spec,
        max_tokens: int,
        max_length: int,
        word_dropout: float,
        seed: int,
        workers: int,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("max_tokens", max_tokens, 1),
            ("max_length", max_length, 1),
            ("workers", workers, 0),
        ):
            if value < least:
                raise BadOption(f"data.{name} is {value}; the least is {least}")
        if not 0 <= seed < 2**32:
            raise BadOption(f"seed is {seed}; it is a number from 0 to {2**32 - 1}")
        if not 0 <= word_dropout < 1:
            raise BadOption(
                f"data.word_dropout is {word_dropout}; it is a share of words, from 0 to below 1"
            )
        create("tokenizer", tokenizer)  # refuses bad options now, not after reading
        self.tokenizer = tokenizer
        self.max_tokens, self.max_length, self.word_dropout = max_tokens, max_length, word_dropout
        self.seed, self.workers = seed, workers
        self.start = 0
        """Batches of this process that were trained on before: the next training goes on after
        them.
        """
        self.content = ""
        """A name for training's text: that of other text is another."""
        self.splits: dict[str, Text] = {}
        self.sets: dict[str, Any] = {}
        self.overlap: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        self._counted: tuple[Any, LengthBucketedSampler] | None = None
        """The training set and its batches, which :meth:`describe` has counted and training has not
        yet taken.
        """
        self.returns: dict[str, int] = {}
        """By split, the texts with a carriage return inside, which other programs may take for the
        end of a line.
        """

    def prepare_data(self) -> None:
        """Check the text, train tokenizers or find them in the cache, tokenize; say on stderr what
        training skips. Done once.
        """
        if self.sets:
            return
        self._prepare()
        for line in self._remarks():
            print(f"data: {line}", file=sys.stderr)

    def setup(self, stage: str | None = None) -> None:
        """Open what :meth:`prepare_data` left in the cache, in each process."""
        if not self.sets:
            self._prepare()

    @property
    def test_names(self) -> list[str]:
        """The test sets, in the order of :meth:`test_dataloader`."""
        return [name for name in self.splits if name not in ("train", "val")]

    def train_dataloader(self) -> DataLoader[Any]:
        """Batches of the epoch that the Trainer is in, those of this process; the first time after
        :attr:`start`.
        """
        loader, done, self.start = self._loader("train", shuffle=True), self.start, 0
        if done:
            whole = in_epoch(
                len(loader), self.trainer.limit_train_batches if self.trainer else None
            )
            epoch, last = divmod(done - 1, whole)
            left = (
                last + 1 < whole
            )  # else nothing, also where the Trainer leaves out a part of an epoch
            loader.batch_sampler.set_epoch(epoch, last + 1 if left else len(loader))  # type: ignore[union-attr]  # they are Buckets
        return loader

    def val_dataloader(self) -> DataLoader[Any]:
        """All of ``val`` with its texts, the longest first."""
        return self._loader("val", shuffle=False)

    def test_dataloader(self) -> list[DataLoader[Any]]:
        """One loader for each of :attr:`test_names`, like ``val``'s."""
        return [self._loader(name, shuffle=False) for name in self.test_names]

    def describe(self) -> str:
        """What was read, in a line for each split; for the beginning of a training."""
        batches = self._buckets("train", shuffle=True)
        padding = batches.padding()
        self._counted = self.sets["train"], batches
        note = f"; skipped: {self._skips()}" if self.skipped else ""
        of = self.unit + "s"
        lines = [
            f"train {len(self.sets['train']):,} {of}, {len(batches):,} batches an epoch, padding {padding:.1%}{note}"
        ]
        lines += [f"val {len(self.sets['val']):,} {of}"]
        lines += [
            f"{name} {len(self.sets[name]):,} {of}, {self.overlap[name]:,} of their sources in training"
            for name in self.test_names
        ]
        return "\n".join(lines)

    def _prepare(self) -> None:
        """Fill ``splits``, ``sets``, ``skipped`` and ``overlap``."""
        raise NotImplementedError

    def _remarks(self) -> list[str]:
        """What is to be said of the text on stderr."""
        skips = [f"training skips {self._skips()}"] if self.skipped else []
        inside = counted(
            {f"in {name}": count for name, count in self.returns.items() if count}, "text"
        )
        return skips + (
            [f"a carriage return inside a text is kept, it ends no line: {inside}"]
            if inside
            else []
        )

    def _skips(self) -> str:
        return counted(self.skipped, self.unit)

    def _buckets(self, split: str, *, shuffle: bool) -> LengthBucketedSampler:
        rank, world = (
            (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        )
        options: dict[str, Any] = {
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "rank": rank,
            "world": world,
            "shuffle": shuffle,
        }
        known, self._counted = self._counted, None
        if known and known[0] is self.sets[split] and options.items() <= vars(known[1]).items():
            return known[1]
        return LengthBucketedSampler(*self.sets[split].widths(), **options)

    def _loader(self, split: str, *, shuffle: bool) -> DataLoader[Any]:
        return DataLoader(
            self.sets[split],
            batch_sampler=self._buckets(split, shuffle=shuffle),
            collate_fn=as_is,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=torch.cuda.is_available(),
        )


def in_epoch(batches: int, limit: int | float | None) -> int:
    """Batches that a Trainer takes of an epoch's, by its ``limit_train_batches``: a number or a
    share.
    """
    return (
        batches
        if limit is None
        else min(batches, limit)
        if isinstance(limit, int)
        else int(batches * limit)
    )


def counted(counts: Mapping[str, int], unit: str) -> str:
    """``"3 pairs with an empty side, 1 pair over 256 tokens"``"""
    return ", ".join(f"{count:,} {unit}{'s' * (count != 1)} {why}" for why, count in counts.items())


def test_paths(
    test: str | Mapping[str, str] | None, endings: tuple[str, ...]
) -> Mapping[str, str] | None:
    """The test sets that ``data.test`` names, by name: one path has the name of its file.

    Raises:
        BadOption: a name that another split has, or that no file could have: predictions and
            pictures are named after their test set.
    """
    if isinstance(test, str):
        name = test.rstrip("/").rpartition("/")[2].removesuffix(".gz")
        test = {
            next(
                (name.removesuffix(ending) for ending in endings if name.endswith(ending)), name
            ): test
        }
    for name in test or ():
        if name in ("train", "val") or not re.fullmatch(r"\w[\w .+-]*", name):
            raise BadOption(
                f"data.test: a test set cannot be named {name!r}; give it a name: data.test: {{NAME: path}}, NAME of letters, digits, - _ ."
            )
    return test
