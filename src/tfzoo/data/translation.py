"""The data module of translation: parallel text, from files, the hub or a built-in data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from tfzoo.base.values import check_range
from tfzoo.data.batches import ParallelDataset
from tfzoo.data.encoded import Sentences
from tfzoo.data.module import TextData, TextKeywords
from tfzoo.data.prepare import (
    Examples,
    SplitFingerprint,
    encode_cells,
    encode_columns,
    generated,
    train_tokenizer,
)
from tfzoo.data.token_dropout import TokenDropout
from tfzoo.data.tokenizer import TokenizerPair, restored
from tfzoo.errors import BadData, BadOption


class TranslationData(TextData):
    """Batches of sentence pairs for :class:`tfzoo.TranslationTask`.

    The text is one of

    - ``dataset``: a built-in data set by name, ``"numbers"`` or ``{"name": "numbers", "language":
      "zh"}``; or a ``datasets.DatasetDict``, of which ``train``, ``val`` and ``test`` name splits;
    - ``name``: a data set of Hugging Face's hub, ``"owner/name"`` or ``"owner/name:config"``;
      ``train``, ``val`` and ``test`` are then names of its splits;
    - ``root``: a folder with ``train``, ``val`` and any number of ``test*``, each as two files,
      ``train.en`` and ``train.de`` (by ``source`` and ``target``), or as a table, ``train.tsv``,
      ``.csv``, ``.jsonl`` or ``.parquet``, plain or ``.gz``; a ``.tsv`` of two columns needs no row
      of names; or a folder that ``DatasetDict.save_to_disk`` wrote;
    - ``train``, ``val``, ``test``: paths of such files, relative to ``root`` if that is given:
      ``corpus/train`` means ``corpus/train.en`` and ``corpus/train.de``, ``corpus/train.tsv`` a
      table; a list of paths, or a pattern such as ``corpus/part*``; or rows: a list or another
      sequence of dicts or of tuples ``(source, target)``, a pandas table, a ``datasets.Dataset``.
      Several test sets: ``{name: ...}``.

    Tokenizers are trained on the training split. They and the ids are cached, and used again as
    long as text, options and code stay the same. Validation and test use every line. Training skips
    pairs with an empty side or a side over ``max_length``; their number is printed. Other options
    than those below are those of :class:`~tfzoo.data.module.TextData`.

    Args:
        source, target: language codes; by default en and de, or those of the built-in data set,
            which can also be given in reverse.
        source_column, target_column: columns of a table, or keys of rows; by default the language
            codes. Other columns are ignored.
        joint: one vocabulary for both languages.
        max_tokens: maximum number of tokens of each side of a batch, with padding.
        max_length: maximum number of tokens of a sentence, without BOS and EOS, in training.
        token_dropout: fraction of the source tokens that training replaces by the unknown token.
        seed: determines the order of batches, and the examples of a built-in data set.

    Raises:
        BadOption: a number out of its range, or options that exclude each other.
        BadData: in ``prepare_data`` and ``setup``: text that is missing or malformed; the message
            names file and line.
    """

    unit = "pair"
    header = False

    def __init__(
        self,
        *,
        source: str | None = None,
        target: str | None = None,
        source_column: str | None = None,
        target_column: str | None = None,
        val_fraction: float | None = None,
        joint: bool = True,
        token_dropout: float = 0.0,
        **text: Unpack[TextKeywords],
    ) -> None:
        if text.get("stream") is not None and val_fraction is not None:
            raise BadOption("data.stream: nothing is held out of a stream; give data.val instead")
        super().__init__(val_fraction=val_fraction, **text)
        check_range("data.token_dropout", token_dropout, ge=0, lt=1)
        if self.built_in is not None and not hasattr(self.built_in, "languages"):
            raise BadOption(f"dataset {self.built_in.entry.name!r} has no translations")
        self.token_dropout = token_dropout
        own = None if self.built_in is None else self.built_in.languages
        self.direction = direction(own, source, target)
        self.columns = source_column or self.direction[0], target_column or self.direction[1]
        self.joint = joint
        self._tokenizers: TokenizerPair | None = None
        self.sets: dict[str, ParallelDataset] = {}

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers, after ``prepare_data`` or ``setup``. Those of a trained translator can be
        set before, and are then used.

        Raises:
            BadOption: there are none yet.
        """
        if self._tokenizers is None:
            raise BadOption("data.tokenizers are known after data.prepare_data()")
        return self._tokenizers

    @tokenizers.setter
    def tokenizers(self, tokenizers: TokenizerPair) -> None:
        self._tokenizers = tokenizers
        self.sets = {}  # the ids of other tokenizers

    def _prepare(self) -> None:
        self.splits = self._examples()
        train, held, read = self._read_splits()
        if self._tokenizers is None:
            self._tokenizers = self._new_tokenizers(train, read["train"])
        both, dropout, sets = self._tokenizers, self._dropout(), {}
        encoders = [*enumerate((both.source, both.target))]
        for name, rows in self.splits.items():
            source, target = encode_columns(
                held.get(name, rows), read[name], encoders, both.spec, name
            )
            sets[name] = ParallelDataset(
                source,
                target,
                np.arange(len(source)),
                both.special,
                held.get(name, []),
                dropout if name == "train" else None,
            )
        if "train" in sets:
            self.skipped = self._filter(sets["train"])
            if len(sets["train"]) == 0:
                skips = self._skips()
                raise BadData(f"train: no pair is left; skipped: {skips} (data.max_length)")
        self.sets = sets

    def _dropout(self) -> TokenDropout:
        return TokenDropout(self.token_dropout, self.seed, self.tokenizers.special)

    def _new_tokenizers(self, rows: Examples, read: SplitFingerprint) -> TokenizerPair:
        """One for both sides if ``joint``, else one for each; those of ``tokenizer_states``, if
        there are any.
        """
        spec, count = self.tokenizer, read.examples
        if self.tokenizer_states:
            states = [restored(spec, state) for state in self.tokenizer_states]
            source, target = states[0], states[-1]
        elif self.joint:
            lines = (line for row in rows for line in row)
            source = train_tokenizer(lines, f"{read.source} {read.target}", spec, count * 2)
            target = source
        else:
            source = train_tokenizer((line for line, _ in rows), read.source, spec, count)
            target = train_tokenizer((line for _, line in rows), read.target, spec, count)
        return TokenizerPair(source, target, *self.direction, spec)

    def encode_rows(self, rows: Sequence[tuple[str, str]]) -> ParallelDataset:
        both = self.tokenizers
        source, target = (
            Sentences.of(encode_cells(tokenizer, [row[side] for row in rows]))
            for side, tokenizer in enumerate((both.source, both.target))
        )
        kept = np.arange(len(rows))
        train = ParallelDataset(source, target, kept, both.special, (), self._dropout())
        self._filter(train)
        return train

    def _remarks(self) -> list[str]:
        both = self.tokenizers
        return super()._remarks() + self._remarks_of(both.source, both.target)

    def _filter(self, train: ParallelDataset) -> dict[str, int]:
        """Leave pairs out of training that have an empty side, or one that is too long; how many,
        by reason.
        """
        source, target = train.source.lengths, train.target.lengths
        empty = np.minimum(source, target) == 0
        long = ~empty & (np.maximum(source, target) > self.max_length)
        counts = {
            "with an empty side": int(empty.sum()),
            f"over {self.max_length} tokens": int(long.sum()),
        }
        train.rows = np.flatnonzero(~(empty | long))
        return {why: count for why, count in counts.items() if count}

    def _examples(self) -> dict[str, Examples]:
        """The rows of each split."""
        if self.built_in is None:
            return self._external(self.columns, self.direction)
        return dict(generated(self.dataset, self.seed, self.built_in.languages, self.direction))


def direction(
    own: tuple[str, str] | None, source: str | None, target: str | None
) -> tuple[str, str]:
    """The languages to translate from and to. ``own`` are those of a built-in data set, in either
    order.

    Raises:
        BadOption: twice the same language, or one that the data set does not have.
    """
    first, second = own or ("en", "de")
    chosen = source or first, target or second
    if chosen[0] == chosen[1]:
        raise BadOption(
            f"data.source and data.target are both {chosen[0]!r}; give both, "
            f"such as source: {second}, target: {first}"
        )
    if own is not None and set(chosen) != set(own):
        raise BadOption(
            f"data.source {chosen[0]!r} and data.target {chosen[1]!r}: "
            f"the data set has {first} and {second}"
        )
    return chosen
