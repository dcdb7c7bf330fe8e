"""Whole words, numbers and punctuation; rare ones are unknown."""

from collections.abc import Iterable
from typing import Literal

from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.data.tokenizer import LARGEST, PIECES, SPECIAL, WORDS, LibraryTokenizer, untrained


@register("tokenizer", "word")
class Word(LibraryTokenizer):
    """Words, numbers and runs of punctuation: the ``vocab_size`` most frequent ones are known.

    Of these, only those that occur at least ``min_count`` times. All others become the unknown
    token.

    A word includes the space before it, so that decoding is concatenation and restores known words
    exactly. This suits classification, not translation. ``lowercase`` converts text to lower case,
    which decoding does not undo. With ``cut: spaces``, text is split at spaces only, for text whose
    punctuation is already separated: ``'s`` or ``[MAX`` is then one word. A script that is written
    without spaces, such as Chinese, gives words only if spaces stand between them.

    Raises:
        BadOption: ``vocab_size`` is under 5 (four special ids and a word) or over 10 million, or
            ``min_count`` under 1.
    """

    smallest = len(SPECIAL) + 1

    def __init__(
        self,
        *,
        vocab_size: int = 30_000,
        min_count: int = 1,
        lowercase: bool = False,
        cut: Literal["signs", "spaces"] = "signs",
    ) -> None:
        super().__init__(vocab_size=vocab_size, lowercase=lowercase)
        name = "tokenizer 'word', option 'min_count'"
        check_range(name, min_count, ge=1, le=LARGEST, whole=True)
        self.min_count = min_count
        self.pieces = PIECES if cut == "signs" else WORDS

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines."""
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
