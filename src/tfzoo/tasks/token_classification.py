"""Token classification: a label for each word of a text, such as those of named entities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from unicodedata import normalize

import numpy as np
import torch
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.data.batches import NO_LABEL, ClassificationDataset, WordBatch, WordDataset, word_batches
from tfzoo.data.classification import LabelledText
from tfzoo.data.prepare import Sentences, location
from tfzoo.data.table import Pair, TextFormat, WordLabels, Words, words_of
from tfzoo.data.tokenizer import Encoder, Vocabulary, WordEncoder, WordLengths
from tfzoo.errors import BadData, BadOption
from tfzoo.learning.cross_entropy import class_losses, constant_loss
from tfzoo.learning.text_task import TextTask
from tfzoo.models.classifier import TransformerClassifier

OUTSIDE = "O"
"""The label of a word that belongs to no span."""
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
"""The prefixes of labels, each as BIOES has it."""


class Span(NamedTuple):
    """Words ``start`` to ``end``, without ``end``, with one label."""

    label: str
    start: int
    end: int


def spans_of(labels: Sequence[str]) -> list[Span]:
    """The spans that the labels of words stand for, in the schemes BIO (also IOB1), BIOES and
    BILOU, read as conlleval does: a label that does not continue the span before it begins one,
    whatever its prefix. A label without a prefix, other than ``O``, is a span by itself.

    >>> spans_of(["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "NOUN"])
    ... # doctest: +NORMALIZE_WHITESPACE
    [Span(label='PER', start=0, end=2), Span(label='LOC', start=3, end=4),
     Span(label='LOC', start=4, end=5), Span(label='NOUN', start=5, end=6)]
    """
    found: list[Span] = []
    begun: Span | None = None  # what the next word may continue
    for index, label in enumerate(labels):
        prefix, kind = parse(label)
        if begun is not None and (prefix in ("B", "S", OUTSIDE) or kind != begun.label):
            found.append(begun)
            begun = None
        if prefix != OUTSIDE:
            begun = Span(kind, index if begun is None else begun.start, index + 1)
            if prefix in ("E", "S"):
                found.append(begun)
                begun = None
    return found if begun is None else [*found, begun]


def parse(label: str) -> tuple[str, str]:
    """Prefix and kind of a label, the prefixes of BILOU as those of BIOES; a label without a prefix
    is a span of one word.

    >>> parse("B-PER"), parse("U-PER"), parse("O"), parse("NOUN")
    (('B', 'PER'), ('S', 'PER'), ('O', ''), ('S', 'NOUN'))
    """
    if label == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, kind = label.partition("-")
    return (PREFIXES[prefix], kind) if dash and kind and prefix in PREFIXES else ("S", label)


class TokenData(LabelledText):
    """Batches of texts for :class:`TokenClassificationTask`; each word has a label. Where the text
    comes from and how it is read: :class:`~tfzoo.data.classification.LabelledText`.

    The words of a text stand between spaces, and so do their labels; in JSON, Parquet, Python and
    data sets of the library ``datasets`` they may be lists, ``["Anna", "sings"]`` and ``["B-PER",
    "O"]``. A file of any other ending than those of tables is a CoNLL file: a word a line, its
    label in the last column, a blank line after each sentence. There ``text_column`` and
    ``label_column`` may be numbers of columns, from 1. The label of a word is that of its first
    token.

    Raises:
        BadOption: two text columns.
        BadData: a text has not as many labels as words, or a label that training does not have.
    """

    label_cells = WordLabels

    def __init__(self, **text: Any) -> None:
        super().__init__(**text)
        words, labels = self.form.columns
        if isinstance(words, Pair):
            raise BadOption("data.text_column takes one column here: the words of a text")
        columns = Words(words), labels
        self.form = TextFormat(columns, columns)

    def labels_of(self, cell: str) -> list[str]:
        """The labels of the words of a text."""
        return words_of(normalize("NFC", cell))

    def check_labels(self, labels: Sequence[str]) -> None:
        """Raise BadData unless there are two."""
        if len(labels) < 2:
            raise BadData("train: fewer than two labels; each word needs one")

    def encoders(self) -> list[tuple[int, Encoder]]:
        tokenizer = self.vocabulary.tokenizer
        return [(0, WordEncoder(tokenizer)), (0, WordLengths(tokenizer))]

    def targets(self, name: str, cells: Sequence[str]) -> Sentences:
        """The classes of the words of each example."""
        return self.label_ids(name, cells)

    def data_set(
        self, name: str, columns: Sequence[Sentences], labels: Any, **reading: Any
    ) -> ClassificationDataset:
        ids, lengths = columns
        wrong = (labels.lengths != lengths.lengths).nonzero()[0]
        if len(wrong):
            row = int(wrong[0])
            raise BadData(
                f"{location(self.splits[name], row, name)}: {lengths.lengths[row]:,} words and "
                f"{labels.lengths[row]:,} labels"
            )
        return WordDataset(ids, lengths, labels, **reading)


def counts_of(
    predicted: Sequence[str], true: Sequence[str], kinds: Sequence[str]
) -> tuple[list[list[int]], list[int]]:
    """What is counted in a text with these labels of its words: the right, predicted and true spans
    of each kind ``(kinds 3)``; and the right words and all.
    """
    found, wanted = spans_of(predicted), spans_of(true)
    number = {kind: k for k, kind in enumerate(kinds)}
    counts = [[0, 0, 0] for _ in kinds]
    for column, spans in enumerate(({*found} & {*wanted}, found, wanted)):
        for span in spans:
            counts[number[span.label]][column] += 1
    right = sum(one == other for one, other in zip(predicted, true, strict=True))
    return counts, [right, len(true)]


def f1(right: Tensor, predicted: Tensor, true: Tensor) -> Tensor:
    """``2 P R / (P + R)``, 0 where there is no span."""
    return 2 * right / (predicted + true).clamp(min=1)


@dataclass
class TokenAnswer:
    """The label of each word of a text, the words, and the spans: label, text, the index of the
    first word and of the one after the last. ``truncated``: the text is longer than the model
    reads, and the words that it does not read are ``O``.
    """

    labels: list[str]
    words: list[str]
    spans: list[dict[str, Any]]
    truncated: bool = False


@register("task", "token_classification")
class TokenClassificationTask(TextTask):
    """Training, evaluation and inference of a model that gives a label to each word.

    The label of a word is predicted from its first token; other tokens have no loss. A batch is a
    :class:`~tfzoo.data.batches.WordBatch`.

    Args:
        model: a :class:`~tfzoo.TransformerClassifier` with the tokenizer's vocabulary size,
            the number of labels as ``classes`` and ``pooling=None``, or any module that maps
            ``tokens`` ``(b n)`` to logits ``(b n classes)``.
        tokenizer: ``TokenData.vocabulary``: the tokenizer and the labels.
    """

    Data = TokenData
    Batch = WordBatch
    example: ClassVar[Mapping[str, Any]] = {
        "data": {"dataset": {"name": "entities", "train": 64, "val": 16, "test": 16}}
    }
    about = "the label of each word of a line, whose words stand between spaces"
    Answer = TokenAnswer
    shares = "accuracy precision recall f1 macro_f1"
    label = "words"
    published = "words"
    line_batches = staticmethod(word_batches)
    monitor = "val/f1"
    higher_is_better: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        **dict.fromkeys(("accuracy", "precision", "recall", "f1", "macro_f1"), True),
    }

    def constant_loss(self, data: Any) -> float:
        found = np.bincount(data.sets["val"].classes.ids, minlength=len(self.labels))
        return constant_loss(torch.from_numpy(found))

    @classmethod
    def model_arguments(
        cls, tokenizer: Vocabulary | None = None, data: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return {**super().model_arguments(tokenizer, data), "pooling": None}

    @classmethod
    def check_model(cls, model: TransformerClassifier) -> None:
        """Every part of a classifier does."""

    def logits(self, batch: WordBatch) -> Tensor:
        """What the model gives for the first token of each word: ``(b w c)``, without meaning
        where there is none.
        """
        if self.foreign:
            shape = *batch.tokens.shape, len(self.labels)
            found = self.checked_logits(self.model(batch.tokens), "b n classes", *shape)
        else:
            found = self.model(batch.tokens, mask=batch.mask())
        places = batch.places.clamp(min=0)[..., None]
        chosen: Tensor = found.gather(1, places.expand(-1, -1, found.shape[-1]))
        return chosen

    def losses(self, logits: Tensor, batch: WordBatch) -> tuple[Tensor, Tensor]:
        """Those of words that are read; scores smooth no labels."""
        read = ((batch.places >= 0) & (batch.label != NO_LABEL)).flatten()
        smoothing = self.optim.label_smoothing if self.training else 0.0
        label = batch.label.clamp(min=0).flatten()
        losses, _ = class_losses(logits.flatten(0, 1), label, smoothing)
        return losses.masked_fill(~read, 0.0), read

    @property
    def kinds(self) -> list[str]:
        """The labels of spans."""
        return sorted({parse(label)[1] for label in self.labels} - {""})

    def columns_of(self, logits: Tensor, batch: WordBatch) -> tuple[Tensor, ...]:
        pairs = zip(self.predicted(logits, batch), self.references(batch), strict=True)
        rows = [counts_of(*pair, self.kinds) for pair in pairs]
        return tuple(map(torch.tensor, zip(*rows, strict=True)))

    def compute_scores(self, spans: Tensor, words: Tensor) -> dict[str, Tensor]:
        """``accuracy``, the share of words whose label is right. A predicted span is right if a
        true one has the same words and label: ``precision`` is the share of predicted spans that
        are right, ``recall`` the share of true spans that are found, ``f1`` is ``2 P R / (P +
        R)``, and ``macro_f1`` its mean over the labels of spans that occur in either. All are from
        0 to 1; a word that a truncated text lacks counts as ``O``. The ``loss`` is the mean cross
        entropy of the words.
        """
        spans, (right_words, every_word) = spans.double().sum(0), words.double().sum(0)
        right, predicted, true = spans.sum(0)
        kinds = spans[spans.sum(1) > 0]
        return {
            "accuracy": right_words / every_word.clamp(min=1),
            "precision": right / predicted.clamp(min=1),
            "recall": right / true.clamp(min=1),
            "f1": f1(right, predicted, true),
            "macro_f1": f1(*kinds.T).mean() if len(kinds) else torch.zeros_like(right),
        }

    def references(self, batch: WordBatch) -> list[list[str]]:
        """The label of each word."""
        labels = self.labels
        return [[labels[k] for k in row if k != NO_LABEL] for row in batch.label.tolist()]

    def predicted(self, logits: Tensor, batch: WordBatch) -> list[list[str]]:
        """The most probable label of each word; ``O`` where a text is truncated."""
        best = logits.argmax(-1).masked_fill(batch.places < 0, NO_LABEL).tolist()
        names = [*self.labels, OUTSIDE]
        counts = [len(words_of(text)) for text in batch.source_text]
        counts = counts or [len(row) for row in self.references(batch)]
        return [[names[k] for k in row[:count]] for row, count in zip(best, counts, strict=True)]

    def answers_of(self, batch: WordBatch, options: Any = None) -> list[TokenAnswer]:
        found = []
        predicted = self.predicted(self.logits(batch), batch)
        for text, labels in zip(batch.source_text, predicted, strict=True):
            words = words_of(text)
            spans = [
                {"label": one.label, "text": " ".join(words[one.start : one.end])}
                | {"start": one.start, "end": one.end}
                for one in spans_of(labels)
            ]
            found.append(TokenAnswer(labels, words, spans))
        return found

    def output_line(self, answer: TokenAnswer) -> str:
        return " ".join(answer.labels)
