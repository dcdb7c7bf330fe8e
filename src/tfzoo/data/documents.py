"""Documents to model as sequences of tokens: where they come from, and their batches, in which
several documents may share a row, or some tokens are masked for a model to find them.
"""

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfzoo.base.special_ids import SpecialIds
from tfzoo.base.values import check_range, type_name
from tfzoo.data.batches import (
    NONE,
    ClassificationDataset,
    OnTruncated,
    TextBatch,
    TokenDropout,
    checked_lines,
    epoch_of,
    fraction,
    in_batches,
    mixed,
    most_read,
    padded,
    random_bits,
    warn_truncated,
)
from tfzoo.data.module import EncodedText, TextData
from tfzoo.data.prepare import Integers, Sentences, encode_cells
from tfzoo.data.table import TextFormat
from tfzoo.data.tokenizer import BEFORE, Tokenizer, Vocabulary, token_texts
from tfzoo.errors import BadOption
from tfzoo.masks import Mask, Pairs

Int64Array = NDArray[np.int64]


@dataclass(kw_only=True)
class DocumentBatch(TextBatch):
    """A batch of documents, or of parts of them. A document of the ids ``x_1 .. x_n`` is read as
    ``BOS x_1 .. x_n``, and ``x_1 .. x_n EOS`` is predicted.

    - ``tokens`` ``(b n)``: the ids that are read, padded on the right
    - ``non_padding`` ``(t)``: the places in ``tokens.flatten()`` that are no padding
    - ``labels`` ``(t)``: the id after each of them
    - ``owner`` ``(t)``: the place of its document in ``index``
    - ``part`` ``(b n)``: which part of its row a token is in, from 1, and 0 at padding; None where
      each row is one part
    - ``positions`` ``(b n)``: the place of each token in its part
    """

    non_padding: Tensor
    labels: Tensor
    owner: Tensor
    part: Tensor | None
    positions: Tensor

    def mask(self) -> Mask:
        """Which tokens are real. A token sees its own part, up to itself."""
        part, n = self.part, self.tokens.size(1)
        if part is None:
            return Mask.right(self.lengths, n)
        same = Pairs(lambda b, h, q, k: part[b, q] == part[b, k], len(part))
        return Mask.right(self.lengths, n, causal=True, allowed=same)


class Items:
    """Documents in items that are batched, each of some parts. ``size`` ``(parts)`` are the tokens
    of each part, ``parts`` those of each item, which have a row each or, ``packed``, one row.
    """

    size: Int64Array
    parts: list[Int64Array]
    packed = False

    def __len__(self) -> int:
        return len(self.parts)

    def lengths(self) -> tuple[Int64Array, Int64Array]:
        """``(items,)``: tokens of each item, and of its longest row; one less, as of texts that are
        counted without EOS.
        """
        total = np.array([self.size[parts].sum() for parts in self.parts], np.int64)
        longest = np.array([self.size[parts].max() for parts in self.parts], np.int64)
        return total - 1, (total if self.packed else longest) - 1


def in_parts(lengths: Int64Array, most: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Texts of so many tokens in parts of at most ``most``: of each its text, begin and size."""
    counts = -(-lengths // most)
    text = np.repeat(np.arange(len(lengths)), counts)
    start = most * (np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts))
    return text, start, np.minimum(most, lengths[text] - start)


def runs(values: Int64Array) -> list[Int64Array]:
    """The indices of each run of equal values."""
    ends = np.flatnonzero(np.diff(values)) + 1
    return [*filter(len, np.split(np.arange(len(values)), ends))]


class DocumentDataset(Items):
    """The documents of one split in items, indexed by batches: ``dataset[[4, 7, 1]]`` is a
    :class:`DocumentBatch` of three items.

    A document is read in parts of at most ``max_length`` tokens, BOS included. An item is a part;
    or with ``lines``, the text of the split, a document, whose parts have a row each; or,
    ``packed``, a row of ``max_length`` tokens with as many parts as fit (:func:`pack`). Each
    document begins with ``special.bos``, and one without a token is left out; or each begins with
    its own of ``begins``.
    """

    def __init__(
        self,
        sequences: Sentences,
        max_length: int,
        special: SpecialIds,
        lines: Sequence[str] = (),
        *,
        packed: bool = False,
        dropout: TokenDropout | None = None,
        begins: Int64Array | None = None,
    ) -> None:
        self.sequences, self.special = sequences, special
        self.begins = np.full(len(sequences), special.bos) if begins is None else begins
        self.lines, self.dropout, self.packed = lines, dropout, packed
        tokens = (sequences.lengths + 1) * ((sequences.lengths > 0) | (begins is not None))
        self.documents = np.count_nonzero(tokens)
        if packed:  # shorter rows hold as much, and attention grows with their square
            max_length = min(max_length, int(tokens.max(initial=1)))
        self.document, self.start, self.size = in_parts(tokens, max_length)
        if packed:
            self.parts = pack(self.size, max_length)
        else:
            self.parts = runs(self.document if lines else np.arange(len(self.size)))

    def __getitem__(self, batch: Sequence[int]) -> DocumentBatch:
        special, items = self.special, [self.parts[item] for item in batch]
        parts = np.concatenate(items)
        size, document = self.size[parts], self.document[parts]
        total = int(size.sum())
        position = np.arange(total) - np.repeat(np.cumsum(size) - size, size)
        # Where each token that is predicted stands among the ids; the token before it is read.
        place = position + np.repeat(self.start[parts], size)
        end = place == np.repeat(self.sequences.lengths[document], size)
        at = place + np.repeat(self.sequences.offsets[document], size)
        ids = self.sequences.ids if len(self.sequences.ids) else np.full(1, special.eos)
        inputs = np.where(place == 0, self.begins[np.repeat(document, size)], ids[at - 1])
        labels = np.where(end, special.eos, ids.take(at, mode="clip"))
        row = np.repeat(np.arange(len(items)), [len(one) for one in items])
        row = row if self.packed else np.arange(len(parts))
        widths = np.bincount(row, size).astype(np.int64)
        n = int(widths.max())
        column = np.arange(total) - np.repeat(np.cumsum(widths) - widths, widths)
        non_padding = np.repeat(row, size) * n + column
        # The documents in the order in which they come.
        known, first, which = np.unique(document, return_index=True, return_inverse=True)
        order = np.argsort(first)
        index, owner = known[order], np.argsort(order)[which]

        def laid_out(values: Int64Array, fill: int = 0) -> Int64Array:
            matrix = np.full(len(widths) * n, fill, np.int64)
            matrix[non_padding] = values
            return matrix.reshape(-1, n)

        tokens = laid_out(inputs, special.fill)
        if self.dropout is not None:
            tokens = self.dropout(tokens, np.asarray(batch), epoch_of(batch))
        part = laid_out(np.repeat(np.arange(1, len(parts) + 1), size)) if self.packed else None
        return DocumentBatch(
            tokens=torch.from_numpy(tokens),
            non_padding=torch.from_numpy(non_padding),
            labels=torch.from_numpy(labels.astype(np.int64)),
            owner=torch.from_numpy(np.repeat(owner, size)),
            part=None if part is None else torch.from_numpy(part),
            positions=torch.from_numpy(laid_out(position)),
            lengths=torch.from_numpy(widths) if total < tokens.size else None,
            index=index.tolist(),
            source_text=[self.lines[row] for row in index] if self.lines else [],
        )


def pack(sizes: Int64Array, length: int) -> list[Int64Array]:
    """Rows of at most ``length`` tokens from parts of these sizes, each whole: the longest part
    first, each in the row with the least space that is enough (best fit decreasing).
    """
    rows: list[list[int]] = []
    with_space: list[list[int]] = [[] for _ in range(length)]  # rows by the tokens that fit in
    spaces: list[int] = []  # those for which there are rows, ascending
    for part in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[part])
        found = bisect_left(spaces, size)
        if found == len(spaces):
            row, space = len(rows), length
            rows.append([])
        else:
            space = spaces[found]
            row = with_space[space].pop()
            if not with_space[space]:
                del spaces[found]
        rows[row].append(part)
        if space > size:
            if not with_space[space - size]:
                insort(spaces, space - size)
            with_space[space - size].append(row)
    return [np.array(row, np.int64) for row in rows]


def prompt_batches(
    lines: Iterable[str],
    vocabulary: Vocabulary,
    max_tokens: int = 4096,
    max_length: int | None = None,
    on_truncated: OnTruncated = warn_truncated,
) -> Iterator[DocumentBatch]:
    """Batches of texts to continue, of similar length, each of at most ``max_tokens`` tokens. They
    begin with BOS if the tokenizer has ``special.prompt_bos``; one without a token is BOS alone. Of
    a text with more than ``max_length`` tokens, BOS included, the last ones are read;
    ``on_truncated`` is then called.
    """
    lines = checked_lines(lines)
    ids = encode_cells(vocabulary.tokenizer, lines)
    if max_length is not None:
        read = max_length - 1
        if rows := [row for row, one in enumerate(ids) if len(one) > read]:
            on_truncated(rows, read)
        ids = [one[len(one) - read :] if len(one) > read else one for one in ids]
    special = vocabulary.special
    begins = [special.bos if special.prompt_bos or not one else one[0] for one in ids]
    sequences = Sentences.of(ids if special.prompt_bos else [one[1:] for one in ids])
    longest = int(sequences.lengths.max(initial=0)) + 1
    dataset = DocumentDataset(sequences, longest, special, lines, begins=np.array(begins, np.int64))
    yield from in_batches(dataset, max_tokens)


class DocumentText(TextData):
    """Documents without labels. A document is a line of a file, or a cell of a table; a blank one
    is left out. One of more tokens than a row has is read in parts, none of which sees another.

    Where the text comes from: :class:`~tfzoo.data.module.TextData`. A folder has ``train.txt`` and
    others; a file of lines that is named has any ending. Without ``val``, a fraction of training is
    held out for it, chosen by the seed and the texts; equal documents stay together.

    Args:
        text_column: the column of a table, or key of rows.
        max_length: the tokens of a row.

    Raises:
        BadOption, BadData: as :class:`~tfzoo.data.module.TextData`.
    """

    unit = "row"

    def __init__(self, *, text_column: str = "text", **text: Any) -> None:
        super().__init__(**text)
        self.form = TextFormat((text_column, text_column), ("txt", "txt"))

    def describe(self) -> str:
        """The size of each split, and how many documents and tokens training has."""
        if self.files:
            return super().describe()
        train = self.sets["train"]
        count = f"{train.documents:,} documents, {int(train.size.sum()):,} tokens"
        return f"{super().describe()}\ntrain has {count}"

    def set_of(self, name: str, text: EncodedText) -> Any:
        (ids,) = text.columns
        if name == "train":
            self.kept({"without a token": ids.lengths == 0})
        return self.items_of(name, ids, [line for line, _ in text.lines])

    def items_of(self, name: str, ids: Sentences, held: list[str]) -> Any:
        """The data set of a split, of its ids and its text, which is empty for training."""
        raise NotImplementedError


class DocumentData(DocumentText):
    """Batches of documents to be read from left to right, each of which begins with BOS. Where the
    text comes from and how it is read: :class:`DocumentText`. Validation and test are never packed:
    a batch holds documents of similar length.

    Args:
        packed: rows of training hold as many documents as fit, none of which sees another: of a
            mixer that reads no such mask, such as ``gru``, say False. Then each has its own row.
        token_dropout: fraction of the tokens that training reads as the unknown token.

    Raises:
        BadOption, BadData: as :class:`~tfzoo.data.module.TextData`.
    """

    def __init__(self, *, packed: bool = True, token_dropout: float = 0.0, **text: Any) -> None:
        super().__init__(**text)
        check_range("data.token_dropout", token_dropout, ge=0, lt=1)
        self.packed, self.token_dropout = packed, token_dropout

    def items_of(self, name: str, ids: Sentences, held: list[str]) -> DocumentDataset:
        special = self.vocabulary.special
        if name != "train":
            return DocumentDataset(ids, self.max_length, special, held)
        dropout = TokenDropout(self.token_dropout, self.seed, special)
        return DocumentDataset(ids, self.max_length, special, packed=self.packed, dropout=dropout)


MASK = "[MASK]"
"""What stands for a masked token in text."""
MASKED, CHANGED = 0.8, 0.1
"""Of the tokens to find, those that are masked and those that become another one."""
CONTINUES = re.compile(r"[^\W_\u2e80-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")
"""What a token begins with that goes on with a word: a letter or a digit, and no sign of a script
that is written without spaces.
"""
Masked = Literal["tokens", "words"]


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
    """The id of the mask; where there is none, that of the unknown token."""
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
        self, sequences: Sentences, max_length: int, masking: Masking, lines: Sequence[str] = ()
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
    lines, special = checked_lines(lines), vocabulary.special
    joins = joins_words(vocabulary.tokenizer)
    read = [with_masks(line, vocabulary.tokenizer, joins) for line in lines]
    ids = [ids for ids, _ in read]
    most = most_read(ids, max_length, special, on_truncated)
    dataset = ClassificationDataset(Sentences.of(ids), NONE, most, special, lines)
    for batch in in_batches(dataset, max_tokens):
        places = [
            (row, row * batch.tokens.size(1) + special.frame - 1 + place)
            for row, line in enumerate(batch.index)
            for place in read[line][1]
            if place < most
        ]
        owner, at = torch.tensor(places, dtype=torch.int64).reshape(-1, 2).unbind(1)
        known = {**vars(batch), "labels": batch.label, "rows": list(range(len(batch)))}
        del known["label"]
        yield MaskedBatch(**known, places=at, owner=owner)


class MaskedData(DocumentText):
    """Batches of documents with masks, for a model to find what they hide. Where the text comes
    from and how it is read: :class:`DocumentText`. What is masked is another in each epoch of
    training, and the same in each validation and test.

    Args:
        mask: ``tokens``, or ``words``: the tokens of a word are masked together. A token with a
            space in front begins a word, and so does a sign of punctuation, or of a script without
            spaces.
        mask_share: of the tokens, rounded, at least one of a text.

    Raises:
        BadOption, BadData: as :class:`~tfzoo.data.module.TextData`; or a tokenizer without mask and
            unknown token.
    """

    def __init__(self, *, mask: Masked = "tokens", mask_share: float = 0.15, **text: Any) -> None:
        super().__init__(**text)
        check_range("data.max_length", self.max_length, ge=3, whole=True)
        check_range("data.mask_share", mask_share, gt=0, lt=1)
        if mask not in get_args(Masked):
            raise BadOption(f" must be {type_name(Masked)}, not {mask!r}", key="data.mask")
        self.mask, self.mask_share = mask, mask_share

    def items_of(self, name: str, ids: Sentences, held: list[str]) -> MaskedDataset:
        tokenizer, special = self.vocabulary.tokenizer, self.vocabulary.special
        begins = begins_word(tokenizer) if self.mask == "words" else None
        masking = Masking(self.mask_share, self.seed, special, len(tokenizer), begins)
        return MaskedDataset(ids, self.max_length, masking, held)
