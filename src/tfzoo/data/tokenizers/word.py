"""Whole words, numbers and signs; rare ones are unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tfzoo.data.library import PIECES, SPECIAL, WORDS, LibraryTokenizer, untrained
from tfzoo.errors import BadOption
from tfzoo.registry import register


@register("tokenizer", "word")
class Word(LibraryTokenizer):
    """Words, numbers and runs of signs: the most frequent ``vocab_size`` of them, each at least
    ``min_count`` times seen, are known.

    A word carries the space before it, so that decoding is joining and gives back known words
    exactly. What is not known becomes the
    unknown token: good for classification, of little use for translation. ``lowercase`` gives up
    case for good. ``cut: spaces`` is for text whose signs already stand apart: only spaces cut it,
    and ``'s`` or ``[MAX`` is one word.

    Raises:
        BadOption: ``vocab_size`` under 5, ``min_count`` under 1.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 30_000,
        min_count: int = 1,
        lowercase: bool = False,
        cut: Literal["signs", "spaces"] = "signs",
    ) -> None:
        if vocab_size <= len(SPECIAL):
            raise BadOption(
                f"tokenizer 'word', option 'vocab_size': {vocab_size} is under {len(SPECIAL) + 1}, four special ids and a word"
            )
        if min_count < 1:
            raise BadOption(f"tokenizer 'word', option 'min_count': {min_count} is under 1")
        self.vocab_size, self.min_count, self.lowercase = vocab_size, min_count, lowercase
        self.pieces = PIECES if cut == "signs" else WORDS

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines, read once."""
        from tokenizers import models, trainers

        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_count,
            special_tokens=list(SPECIAL),
            show_progress=False,
        )
        fresh = untrained(
            models.WordLevel(unk_token=SPECIAL[1]), lowercase=self.lowercase, pieces=self.pieces
        )
        fresh.train_from_iterator(lines, trainer)
        self._keep(fresh)
