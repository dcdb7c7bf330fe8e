"""What the data modules of all tasks share: text that is prepared once, and batches of similar
length in an order that depends on seed and epoch alone.
"""

import sys
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple

import lightning.pytorch as L
import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from tfzoo.base import adapters
from tfzoo.base.registry import DatasetSpec, TokenizerSpec, create
from tfzoo.base.values import check_names, check_range
from tfzoo.data.loaders import (
    Files,
    LengthBucketedSampler,
    StreamLoader,
    TextStream,
    TrainingLoader,
    check_count,
    loader_options,
)
from tfzoo.data.prepare import (
    Examples,
    Integers,
    Sentences,
    SplitRead,
    encode_cells,
    encode_columns,
    generated,
    hold_out,
    read_split,
    train_tokenizer,
)
from tfzoo.data.source import Split, TextSource
from tfzoo.data.table import TextFormat, names_of, parts
from tfzoo.data.tokenizer import Encoder, Vocabulary
from tfzoo.errors import BadData, BadOption

MOST_TOKENS = 10**9
"""The upper bound of ``max_tokens`` and ``max_length``."""


class EncodedText(NamedTuple):
    """A split: the ids of its columns, its text, none of training, and cells of labels."""

    columns: Sequence[Sentences]
    lines: Sequence[tuple[str, str]] = ()
    cells: Sequence[str] = ()


class TextData(L.LightningDataModule):
    """A data module for text. A subclass says how the text stands in files and rows (``form``) and
    what a split becomes (:meth:`set_of`). Its constructor has its own options and passes on those
    that are listed here.

    The text is one of

    - ``dataset``: a built-in data set by name, ``"listops"`` or ``{"name": "listops", "depth":
      4}``; or a ``datasets.DatasetDict``, of which ``train``, ``val`` and ``test`` name splits;
    - ``name``: a data set of Hugging Face's hub, ``"owner/name"`` or ``"owner/name:config"``;
      ``train``, ``val`` and ``test`` are then names of its splits;
    - ``root``: a folder with ``train``, perhaps ``val``, and any number of ``test*``: tables whose
      first row names the columns (``train.tsv``, ``.csv``, ``.jsonl``, ``.parquet``) or files of
      lines, plain or ``.gz``; or a folder that ``DatasetDict.save_to_disk`` wrote;
    - ``train``, ``val``, ``test``: paths of such files, relative to ``root`` if that is given, a
      list of them, or a pattern with ``*``; or rows: a list or another sequence of dicts or of
      tuples, a pandas table, a ``datasets.Dataset``. Several test sets: ``{name: ...}``.

    The tokenizer and the ids are cached, and used again as long as text, options and code stay the
    same. After preparation ``splits`` holds the text by split, ``sets`` the ids, ``skipped`` the
    number of examples that training leaves out, by reason, and ``overlap``, by test set, the number
    of its sources that are in training too.

    Args:
        dataset, name, root, train, val, test: where the text comes from.
        val_fraction: fraction of training that is held out if there is no ``val``; None: ``val`` is
            demanded.
        tokenizer: name and options of the tokenizer.
        max_tokens: maximum number of tokens of a batch, with padding.
        max_length: number of tokens of a text that a row holds.
        seed: determines the order of batches, what is held out, and the examples of a built-in
            data set.
        workers: processes that make batches; 0: the main process does.
        stream: read ``train`` as a stream, in epochs of so many batches of each process
            (:mod:`tfzoo.data.loaders`). None: it is prepared as a whole.

    Raises:
        BadOption: an argument that there is not, a number out of its range, a tokenizer that cannot
            be built, or options that exclude each other.
        BadData: in ``prepare_data`` and ``setup``: text that is missing or malformed; the message
            names file and line.
    """

    unit: ClassVar[str]
    """What :meth:`describe` calls one example."""
    labelled: ClassVar[bool] = False
    """Whether the second column has labels, which are kept, so that training is no stream."""
    form: TextFormat
    """How the text stands in files and rows."""

    # What an object has until it is prepared.
    tokenizer_states: Sequence[str] = ()
    """States of tokenizers that are used in place of new ones: of source and target, or one."""
    files: Files | None = None
    """Those of a training text that is read as a stream; :meth:`_prepare` finds them."""
    content = ""
    """A hash of the training text."""
    holds_out = False
    """Whether ``val`` is a part of the training text."""

    def __init__(
        self,
        *,
        dataset: DatasetSpec | None = None,
        name: str | None = None,
        root: str | None = None,
        train: Split | None = None,
        val: Split | None = None,
        test: Split | dict[str, Split] | None = None,
        val_fraction: float | None = 0.1,
        tokenizer: TokenizerSpec = "bpe",
        max_tokens: int = 4096,
        max_length: int = 256,
        seed: int = 0,
        workers: int = 0,
        stream: int | None = None,
        **unknown: Any,
    ) -> None:
        super().__init__()
        check_names(type(self), unknown)
        check_range("data.max_tokens", max_tokens, ge=1, le=MOST_TOKENS, whole=True)
        check_range("data.max_length", max_length, ge=1, le=MOST_TOKENS, whole=True)
        check_range("data.workers", workers, ge=0, le=1024, whole=True)
        check_range("data.stream", stream, ge=1, le=MOST_TOKENS, whole=True, optional=True)
        check_range("seed", seed, ge=0, lt=2**32, whole=True)
        check_range("data.val_fraction", val_fraction, gt=0, lt=1, optional=True)
        if stream is not None and self.labelled:
            raise BadOption(
                ": what labels there are is known when all of training is read, so that "
                "text with labels is prepared as a whole; leave it out",
                key="data.stream",
            )
        create("tokenizer", tokenizer)  # its options are checked now, not after reading
        self.text = TextSource(dataset, name, root, train, val, test, stream=stream is not None)
        self.built_in = self.text.built_in
        self.val_fraction, self.tokenizer = val_fraction, tokenizer
        self.max_tokens, self.max_length = max_tokens, max_length
        self.seed, self.workers = seed, workers
        self.stream = stream
        self._vocabulary: Any = None
        self.splits: dict[str, Examples] = {}
        self.sets: dict[str, Any] = {}
        self.overlap: dict[str, int] = {}
        self.skipped: dict[str, int] = {}

    @property
    def vocabulary(self) -> Any:
        """The tokenizers, and the labels where there are any, after ``prepare_data`` or ``setup``.
        Those of a trained model can be set before, and are then used.

        Raises:
            BadOption: there are none yet.
        """
        if self._vocabulary is None:
            raise BadOption("the vocabulary of the data is known after data.prepare_data()")
        return self._vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self.sets = {}  # the ids of another tokenizer

    def prepare_data(self) -> None:
        """Check the text, train the tokenizers and tokenize, or take both from the cache; print on
        stderr what training leaves out. Later calls do nothing.
        """
        if self.sets:
            return
        self._prepare()
        for line in self._remarks():
            print(f"data: {line}", file=sys.stderr)

    def setup(self, stage: str | None = None) -> None:
        """Open, in each process, what :meth:`prepare_data` has put into the cache."""
        if not self.sets:
            self._prepare()
        if self.trainer is None or self.trainer.world_size == 1:
            return
        for name, rows in self.sets.items():
            check_count(f"{name}: {len(rows)} {self.unit}s", len(rows), self.trainer.world_size)
        if not dist.is_initialized():  # as in a dry run, or before training
            return
        adapters.keep_samplers(self.trainer)
        strategy = self.trainer.strategy
        if not strategy.reduce_boolean_decision(self.content == strategy.broadcast(self.content)):
            raise BadData(
                "the processes of this training have different training text; give each the same "
                "rows in the same order (seed what draws or shuffles them)"
            )

    @property
    def test_names(self) -> list[str]:
        """The test sets, in the order of :meth:`test_dataloader`."""
        return [name for name in self.splits if name not in ("train", "val")]

    def train_dataloader(self) -> TrainingLoader | StreamLoader:
        """This process's batches of training, which go on where a checkpoint was written."""
        limit = self.trainer.limit_train_batches if self.trainer else None
        if self.files is not None:
            return StreamLoader(self._stream(self.files), self.stream or 1, self.workers, limit)
        order = self._sampler("train", shuffle=True)
        return TrainingLoader(self.sets["train"], order, self.workers, limit=limit)

    def val_dataloader(self) -> DataLoader[Any]:
        """All of ``val`` with its text, the longest examples first."""
        return self._loader("val")

    def test_dataloader(self) -> list[DataLoader[Any]]:
        """One loader for each of :attr:`test_names`, as for ``val``."""
        return [self._loader(name) for name in self.test_names]

    def predict_dataloader(self) -> list[DataLoader[Any]]:
        """As :meth:`test_dataloader`, with the examples in the order of their rows."""
        return [self._loader(name, sort=False) for name in self.test_names]

    def describe(self) -> str:
        """The size of each split, one per line, for the beginning of a training."""
        sizes = {name: f"{name} {len(rows):,} {self.unit}s" for name, rows in self.sets.items()}
        if self.files is not None:
            train = f"train is a stream of {len(self.files.names):,} files, "
            return "\n".join([f"{train}{self.stream:,} batches an epoch", *sizes.values()])
        batches = len(self._sampler("train", shuffle=True))
        lines = [f"{sizes['train']}, {batches:,} batches an epoch", sizes["val"]]
        for name in self.test_names:
            lines.append(f"{sizes[name]}, {self.overlap[name]:,} of their sources in training")
        if self.holds_out:
            lines.append(f"val is held out of training (data.val_fraction {self.val_fraction:g})")
        return "\n".join(lines)

    def _prepare(self) -> None:
        """Fill ``splits``, ``sets``, ``skipped`` and ``overlap``."""
        made = create("tokenizer", self.tokenizer)
        if "published" in made.entry.traits and not (self._vocabulary or self.tokenizer_states):
            made.train(())  # reads its folder, and no text
            self.tokenizer_states = [made.state()] * 2
        self.splits = {**self._examples()}
        read = self._read_splits()
        if self._vocabulary is None:
            self._vocabulary = self.new_vocabulary(read)
        encoders, spec, sets = self.encoders(), self.vocabulary.spec, {}
        for name in self.splits:
            columns = encode_columns(read[name], encoders, spec, name)
            lines = [] if name == "train" else [*read[name].rows]
            sets[name] = self.set_of(name, EncodedText(columns, lines, read[name].cells))
            if not len(sets[name]):
                why = f"skipped: {self._skips()}" if name == "train" else "none has a token"
                raise BadData(f"{name}: no {self.unit} is left; {why}")
        self.sets = sets

    def _examples(self) -> Mapping[str, Examples]:
        """The rows of each split. Finds files, or copies those at an address; reads none."""
        if self.built_in is not None:
            return generated(self.text.dataset, self.seed)
        if self.stream is not None:
            self.files = Files(*self.text.files(self.form))
        found = self.text.external(self.form)
        self.holds_out = "val" not in found
        if not self.holds_out:
            return found
        if self.stream is not None:
            raise BadOption(" is not given, and nothing is held out of a stream", key="data.val")
        if self.val_fraction is None:
            raise BadOption(
                f" is not given, and {self.text.name or self.text.root or 'the data set'} has no "
                "split of that name; data.val_fraction 0.1 holds a part of training out",
                key="data.val",
            )
        return hold_out(found, self.val_fraction, self.seed)

    def _read_splits(self) -> dict[str, SplitRead]:
        """Read each split once, and keep the rows of all but training; of a stream, its sample."""
        held = {name: list(rows) for name, rows in self.splits.items() if name != "train"}
        tested = frozenset(source for name in self.test_names for source, _ in held[name])
        whole = self.files.sample() if self.files else self.splits["train"]
        train = read_split(whole, "train", tested, cells=self.labelled)
        self.content = self.files.content if self.files else f"{train.source} {train.target}"
        self.overlap = {
            name: sum(source in train.known for source, _ in held[name]) for name in self.test_names
        }
        read = {name: read_split(rows, name, cells=self.labelled) for name, rows in held.items()}
        return {"train": train, **read}

    def new_vocabulary(self, read: Mapping[str, SplitRead]) -> Any:
        """A tokenizer of the first column of training, and its labels."""
        names, train = names_of(self.form.columns[0]), read["train"]
        lines = (
            text for row, _ in train.rows for text in (parts(row) if len(names) == 2 else (row,))
        )
        content, count = f"{train.source} {len(names)}", train.examples * len(names)
        tokenizer = train_tokenizer(lines, content, self.tokenizer, count, self.tokenizer_states)
        return Vocabulary(tokenizer, self.labels_in(read), self.tokenizer, names)

    def labels_in(self, read: Mapping[str, SplitRead]) -> list[str]:
        """The labels that a model learns, by the cells of the splits; [] if they are no names."""
        return []

    def encoders(self) -> Sequence[tuple[int, Encoder]]:
        """What a split becomes: what makes ids of which of its two columns."""
        return list(self.vocabulary.encoders)

    def set_of(self, name: str, text: EncodedText) -> Any:
        """The data set of a split. That of ``train`` leaves out what is :meth:`kept` from it."""
        raise NotImplementedError

    def encode_rows(self, rows: Sequence[tuple[str, str]]) -> Any:
        """The data set of some rows of a stream, without those that training leaves out."""
        columns = [
            Sentences.of(encode_cells(encoder, [row[side] for row in rows]))
            for side, encoder in self.encoders()
        ]
        return self.set_of("train", EncodedText(columns))

    def kept(self, skipped: Mapping[str, NDArray[np.bool_]]) -> Integers:
        """The rows of training without those that are ``skipped``, by reason."""
        counts = {why: int(rows.sum()) for why, rows in skipped.items()}
        self.skipped = {why: count for why, count in counts.items() if count}
        return np.flatnonzero(~np.any([*skipped.values()], axis=0))

    def _remarks(self) -> list[str]:
        """What :meth:`prepare_data` prints: what training skips."""
        return [f"training skips {self._skips()}"] if self.skipped else []

    def _skips(self) -> str:
        """``"3 pairs with an empty side, 1 pair over 256 tokens"``"""
        return ", ".join(
            f"{count:,} {self.unit}{'s' * (count != 1)} {why}"
            for why, count in self.skipped.items()
        )

    @property
    def _processes(self) -> tuple[int, int]:
        """The number of this process, and how many there are."""
        trainer = self.trainer
        return (trainer.global_rank, trainer.world_size) if trainer else (0, 1)

    def _sampler(self, split: str, *, shuffle: bool, sort: bool = True) -> LengthBucketedSampler:
        if not self.sets:
            raise BadOption("data loaders are there after data.prepare_data() and data.setup()")
        source, target = self.sets[split].lengths()
        rank, world_size = self._processes
        return LengthBucketedSampler(
            source,
            target,
            self.max_tokens,
            seed=self.seed,
            rank=rank,
            world_size=world_size,
            shuffle=shuffle,
            sort=sort,
        )

    def _stream(self, files: Files) -> TextStream:
        encoder = copy(self)  # worker processes that are spawned get it
        encoder.trainer, encoder.splits, encoder.sets = None, {}, {}
        return TextStream(files, encoder.encode_rows, self.max_tokens, self.seed, *self._processes)

    def _loader(self, split: str, *, sort: bool = True) -> DataLoader[Any]:
        order = self._sampler(split, shuffle=False, sort=sort)
        return DataLoader(self.sets[split], **loader_options(order, self.workers))
