"""Documents of which some tokens are masked, for a model to find them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfzoo.base.special_ids import SpecialIds
from tfzoo.base.values import check_range, type_name
from tfzoo.data.batch_order import LengthBucketedSampler
from tfzoo.data.batches import (
    OnTruncated,
    TextBatch,
    checked_lines,
    epoch_of,
    fraction,
    mixed,
    padded,
    random_bits,
    truncated,
    warn_truncated,
)
from tfzoo.data.documents import DocumentText, Items, in_parts, runs
from tfzoo.data.encoded import Integers, Sentences
from tfzoo.data.tokenizer import Tokenizer, Vocabulary, token_texts
from tfzoo.data.words import BEFORE
from tfzoo.errors import BadOption

MASK = "[MASK]"
"""What stands for a masked token in text."""
MASKED, CHANGED = 0.8, 0.1
"""Of the tokens to find, those that are masked and those that become another one."""
CONTINUES = re.compile(r"[^\W_\u2e80-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")
"""What a token begins with that goes on with a word: a letter or a digit, and no sign of a script
that is written without spaces.
"""
Words = Literal["tokens", "words"]


@dataclass(frozen=True)
class Masking:
    """BERT's masking (Devlin et al. 2019, section 3.1). Of the n tokens of a text, ``share`` times
    n, rounded, and at least one are to be found. Of these, 80 % become the mask, 10 % any token of
    the vocabulary, and 10 % stay as they are. Special tokens are never chosen.

    All that is random is a function of the seed, the epoch, the text and the place, whatever batch
    the text is in.

    Args:
        share: of the tokens.
        seed: of the random numbers.
        special: ids of the tokenizer. Where it has no mask, its unknown token is the mask.
        size: that of the vocabulary.
        begins: ``(size)``: whether a token begins a word. Words are then chosen whole, in random
            order, until they have as many tokens. None: each token is chosen by itself.

    Raises:
        BadOption: the tokenizer has neither a mask nor an unknown token.
    """

    share: float
    seed: int
    special: SpecialIds
    size: int
    begins: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        mask_of(self.special)

    def __call__(
        self, ids: NDArray[np.int64], rows: Integers, epoch: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """``(b n)`` ids with masks, and which of them are to be found; ``ids`` ``(b n)`` are those
        of the texts ``rows`` ``(b)``.
        """
        bits = random_bits(self.seed, epoch, rows, ids.shape[1])
        ordinary = np.isin(ids, list(self.special.every), invert=True)
        first = np.ones_like(ordinary)  # of its word
        if self.begins is not None:
            first[:, 1:] = (self.begins[ids] | ~ordinary)[:, 1:] | ~ordinary[:, :-1]
        place = np.arange(ids.shape[1])
        begin = np.maximum.accumulate(np.where(first, place, 0), axis=1)
        key = np.where(ordinary, np.take_along_axis(fraction(bits), begin, 1), 1.0)
        rank = np.argsort(np.argsort(key, axis=1, kind="stable"), axis=1, kind="stable")
        count = np.maximum(1, np.floor(self.share * ordinary.sum(1) + 0.5))
        chosen = ordinary & (np.take_along_axis(rank, begin, 1) < count[:, None])
        another, how = mixed(bits), fraction(mixed(mixed(bits)))
        every = np.array(self.special.ordinary(self.size - len(self.special.every)))
        changed = np.where(how < MASKED + CHANGED, every[another % np.uint64(len(every))], ids)
        masked = np.where(how < MASKED, mask_of(self.special), changed)
        return np.where(chosen, masked, ids), chosen


def mask_of(special: SpecialIds) -> int:
    """The id of the mask; where there is none, that of the unknown token.

    Raises:
        BadOption: there is neither.
    """
    found = special.unk if special.mask is None else special.mask
    if found is None:
        raise BadOption("this tokenizer has no id of a mask and none of the unknown token")
    return found


def begins_word(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Whether each id begins a word: it has a space in front, or is no letter or digit."""
    texts = token_texts(tokenizer, range(len(tokenizer)))
    return np.array([not CONTINUES.match(text) and "\ufffd" not in text for text in texts])


@dataclass(kw_only=True)
class MaskedBatch(TextBatch):
    """A batch of documents, or of parts of them, with masks.

    - ``tokens`` ``(b n)``: the ids that are read, framed and padded as the tokenizer's
      :class:`~tfzoo.SpecialIds` say
    - ``places`` ``(t)``: the places in ``tokens.flatten()`` of the tokens to find
    - ``labels`` ``(t)``: what stood there; none in a text with masks of its own
    - ``owner`` ``(t)``: the place of its document in ``index``
    - ``rows`` ``(b)``: the place of each row's document in ``index``
    - ``lengths`` ``(b)``: how many tokens of each row are real; None where no row is padded
    - ``index``: the rows of the documents in their split
    - ``source_text``: the documents; [] in training
    """

    places: Tensor
    labels: Tensor
    owner: Tensor
    rows: list[int]


class MaskedDataset(Items):
    """The documents of one split in items, indexed by batches: ``dataset[[4, 7, 1]]`` is a
    :class:`MaskedBatch` of three items.

    A document is read in parts of at most ``max_length`` tokens, special ones included. An item is
    a part; or with ``lines``, the text of the split, a document, whose parts have a row each. A
    document without a token is left out.
    """

    def __init__(
        self,
        sequences: Sentences,
        max_length: int,
        masking: Masking,
        lines: Sequence[str] = (),
    ) -> None:
        self.sequences, self.masking, self.lines = sequences, masking, lines
        self.documents = np.count_nonzero(sequences.lengths)
        frame = masking.special.frame
        self.document, start, size = in_parts(sequences.lengths, max_length - frame)
        self.size = size + frame
        starts = np.add(sequences.offsets[self.document], start)
        self.texts = Sentences(sequences.ids, np.append(starts, len(sequences.ids)))
        part = np.arange(len(size))
        self.parts = runs(self.document if lines else part)
        # what is masked is drawn from these, which count a document without a token as well
        self.number = part + (sequences.lengths == 0).cumsum()[self.document]

    def __getitem__(self, batch: Sequence[int]) -> MaskedBatch:
        items = [self.parts[item] for item in batch]
        parts, special = np.concatenate(items), self.masking.special
        ids, lengths = padded(self.texts, parts, special, special.cls)
        tokens, chosen = self.masking(ids, self.number[parts], epoch_of(batch))
        rows = np.repeat(np.arange(len(items)), [len(one) for one in items])
        index = [int(self.document[one[0]]) for one in items]
        return MaskedBatch(
            tokens=torch.from_numpy(tokens),
            places=torch.from_numpy(np.flatnonzero(chosen)),
            labels=torch.from_numpy(ids[chosen]),
            owner=torch.from_numpy(np.repeat(rows, chosen.sum(1))),
            rows=rows.tolist(),
            lengths=lengths,
            index=index,
            source_text=[self.lines[row] for row in index] if self.lines else [],
        )


def joins_words(tokenizer: Tokenizer) -> bool:
    """Whether words have the space before them, so that a text needs none before a mask."""
    texts = token_texts(tokenizer, range(len(tokenizer)))
    return any(text.startswith(" ") and text.strip() for text in texts)


def with_masks(line: str, tokenizer: Tokenizer, joins: bool) -> tuple[list[int], list[int]]:
    """The ids of a text in which ``[MASK]`` stands for a token, and the places of the masks."""
    ids: list[int] = []
    places = []
    for number, text in enumerate(line.split(MASK)):
        if number:
            places.append(len(ids))
            ids.append(mask_of(tokenizer.special))
        spaced = joins and number and text.startswith(" ")
        text = text.strip(" ") if joins else text
        if spaced and text.strip():  # a word after a mask has the space before it
            before, both = tokenizer.encode([BEFORE, f"{BEFORE} {text}"])
            ids += both[len(before) :]
        elif text:
            ids += tokenizer.encode([text if text.strip() else ""])[0]
    return ids, places


def filled(line: str, found: Sequence[str]) -> str:
    """A text with these words in place of its first masks.

    >>> filled("the [MASK] that [MASK]", ["dogs"])
    'the dogs that [MASK]'
    """
    for word in found:
        line = line.replace(MASK, word, 1)
    return line


def text_with_masks_batches(
    lines: Iterable[str],
    vocabulary: Vocabulary,
    max_tokens: int = 4096,
    max_length: int | None = None,
    on_truncated: OnTruncated = warn_truncated,
) -> Iterator[MaskedBatch]:
    """Batches of texts in which ``[MASK]`` stands for a token, as those of
    :func:`~tfzoo.data.batches.translation_batches`; ``labels`` are empty.
    """
    lines = checked_lines(lines)
    if not lines:
        return
    tokenizer, special = vocabulary.tokenizer, vocabulary.special
    joins = joins_words(tokenizer)
    read = [with_masks(line, tokenizer, joins) for line in lines]
    ids = truncated([ids for ids, _ in read], max_length, special, on_truncated)
    sequences = Sentences.of(ids)
    lengths = sequences.lengths + special.frame - 1
    for batch in LengthBucketedSampler(lengths, lengths, max_tokens, shuffle=False):
        tokens, real = padded(sequences, np.asarray(batch), special, special.cls)
        before, n = special.frame - 1, tokens.shape[1]
        places = [
            (row, row * n + before + place)
            for row, line in enumerate(batch)
            for place in read[line][1]
            if place < len(ids[line])
        ]
        owner, at = np.array(places, np.int64).reshape(-1, 2).T
        yield MaskedBatch(
            tokens=torch.from_numpy(tokens),
            places=torch.from_numpy(at.copy()),
            labels=torch.zeros(0, dtype=torch.int64),
            owner=torch.from_numpy(owner.copy()),
            rows=list(range(len(batch))),
            lengths=real,
            index=list(batch),
            source_text=[lines[line] for line in batch],
        )


class MaskedData(DocumentText):
    """Batches of documents with masks, for a model to find what they hide. Where the text comes
    from and how it is read: :class:`~tfzoo.data.documents.DocumentText`. What is masked is another
    in each epoch of training, and the same in each validation and test.

    Args:
        mask: ``tokens``, or ``words``: the tokens of a word are masked together. A token with a
            space in front begins a word, and so does a sign of punctuation, or of a script without
            spaces.
        mask_share: of the tokens, rounded, at least one of a text.

    Raises:
        BadOption, BadData: as :class:`~tfzoo.data.documents.DocumentText`; or another ``mask``, or
            a tokenizer without mask and unknown token.
    """

    def __init__(self, *, mask: Words = "tokens", mask_share: float = 0.15, **text: Any) -> None:
        super().__init__(**text)
        check_range("data.max_length", self.max_length, ge=3, whole=True)
        check_range("data.mask_share", mask_share, gt=0, lt=1)
        if mask not in get_args(Words):
            raise BadOption(f" must be {type_name(Words)}, not {mask!r}", key="data.mask")
        self.mask, self.mask_share = mask, mask_share

    def items_of(self, name: str, ids: Sentences, held: list[str]) -> MaskedDataset:
        tokenizer, special = self.vocabulary.tokenizer, self.vocabulary.special
        begins = begins_word(tokenizer) if self.mask == "words" else None
        masking = Masking(self.mask_share, self.seed, special, len(tokenizer), begins)
        return MaskedDataset(ids, self.max_length, masking, held)
