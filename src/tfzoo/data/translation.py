"""The data module of translation: parallel text, from files, the hub or a built-in data set."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfzoo.base.values import check_range
from tfzoo.data.batches import ParallelDataset, TokenDropout
from tfzoo.data.module import EncodedText, TextData
from tfzoo.data.prepare import Examples, SplitRead, train_tokenizer
from tfzoo.data.table import TextFormat
from tfzoo.data.tokenizer import TokenizerPair
from tfzoo.errors import BadOption


class TranslationData(TextData):
    """Batches of sentence pairs for :class:`tfzoo.TranslationTask`.

    Where the text comes from: :class:`~tfzoo.data.module.TextData`. Files of lines are ``train.en``
    and ``train.de`` (by ``source`` and ``target``), of which ``corpus/train`` means both, rows
    ``(source, target)``; a ``.tsv`` of two columns needs no row of names. Validation and test use
    every line. Training skips pairs with an empty side or a side over ``max_length``; their number
    is printed.

    Args:
        source, target: language codes; by default en and de, or those of the built-in data set,
            which can also be given in reverse.
        source_column, target_column: columns of a table, or keys of rows; by default the language
            codes. Other columns are ignored.
        joint: one vocabulary for both languages.
        max_tokens: maximum number of tokens of each side of a batch, with padding.
        max_length: maximum number of tokens of a sentence, without BOS and EOS, in training.
        token_dropout: fraction of the source tokens that training replaces by the unknown token.

    Raises:
        BadOption, BadData: as :class:`~tfzoo.data.module.TextData`.
    """

    unit = "pair"

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
        **text: Any,
    ) -> None:
        super().__init__(val_fraction=val_fraction, **text)
        check_range("data.token_dropout", token_dropout, ge=0, lt=1)
        if self.built_in is not None and not hasattr(self.built_in, "languages"):
            raise BadOption(f"dataset {self.built_in.entry.name!r} has no translations")
        self.token_dropout, self.joint = token_dropout, joint
        own = None if self.built_in is None else self.built_in.languages
        self.direction = first, second = direction(own, source, target)
        columns = self.direction
        if own is None:
            columns = (source_column or first, target_column or second)
        if columns[0] == columns[1]:
            raise BadOption(
                f" and data.target_column are both {columns[0]!r}", key="data.source_column"
            )
        options = "source_column", "target_column"
        self.form = TextFormat(columns, self.direction, header=False, options=options)

    tokenizers = TextData.vocabulary

    def _examples(self) -> Mapping[str, Examples]:
        found = super()._examples()
        if self.built_in is None or self.direction == self.built_in.languages:
            return found
        return {name: [row[::-1] for row in rows] for name, rows in found.items()}

    def new_vocabulary(self, read: Mapping[str, SplitRead]) -> TokenizerPair:
        """One for both sides if ``joint``, else one for each; those of ``tokenizer_states``, if
        there are any.
        """
        train, spec, states = read["train"], self.tokenizer, self.tokenizer_states
        hashes, sides = (train.source, train.target), ([0, 1],) if self.joint else ([0], [1])
        tokenizers = [
            train_tokenizer(
                (row[side] for row in train.rows for side in of),
                " ".join(hashes[side] for side in of),
                spec,
                train.examples * len(of),
                states[number : number + 1],
            )
            for number, of in enumerate(sides)
        ]
        return TokenizerPair(tokenizers[0], tokenizers[-1], *self.direction, spec)

    def set_of(self, name: str, text: EncodedText) -> ParallelDataset:
        """Training leaves out pairs that have an empty side, or one that is too long."""
        source, target = text.columns
        p = self.token_dropout if name == "train" else 0.0
        dropout = TokenDropout(p, self.seed, self.vocabulary.special)
        made = ParallelDataset(source, target, dropout.special, text.lines, dropout)
        if name == "train":
            empty = np.minimum(source.lengths, target.lengths) == 0
            long = ~empty & (np.maximum(source.lengths, target.lengths) > self.max_length)
            over = f"over {self.max_length} tokens (data.max_length)"
            made.rows = self.kept({"with an empty side": empty, over: long})
        return made


def direction(
    own: tuple[str, str] | None, source: str | None, target: str | None
) -> tuple[str, str]:
    """The languages to translate from and to. ``own`` are those of a built-in data set, in either
    order.
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
