"""Subwords chosen by a unigram language model, with a fallback to bytes."""

import json
from collections.abc import Iterable

from tfzoo.base.registry import register
from tfzoo.data.tokenizer import BYTES, SPECIAL, LibraryTokenizer, untrained


@register("tokenizer", "unigram", paper="arXiv:1804.10959, section 3.2")
class Unigram(LibraryTokenizer):
    """Split text into the most probable sequence of pieces: ``argmax sum_i log p(x_i)``.

    Kudo 2018. Training removes the pieces that the likelihood needs least, until ``vocab_size`` are
    left. Spaces are ordinary characters, so that decoding is concatenation. All characters of
    the training text are kept, also where these alone exceed ``vocab_size``; others become their
    UTF-8 bytes: no token is unknown, and ``decode(encode(x)) == x`` up to NFC. ``lowercase``
    converts text to lower case, which decoding does not undo.

    Raises:
        BadOption: ``vocab_size`` is under 260 (four special ids and 256 bytes) or over 10 million.
    """

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines."""
        from tokenizers import models, trainers

        trainer = trainers.UnigramTrainer(
            vocab_size=self.vocab_size,
            special_tokens=[*SPECIAL, *BYTES],
            unk_token=SPECIAL[1],
            show_progress=False,
        )
        fresh = untrained(models.Unigram(), lowercase=self.lowercase)
        fresh.train_from_iterator(lines, trainer)
        vocabulary = json.loads(fresh.to_str())["model"]["vocab"]
        self._keep(fresh, byte_fallback=True, vocab=ordered(vocabulary))


def ordered(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The pieces sorted by rounded score, then by spelling. The library sums in no fixed order, so
    the last digits of its scores, and without this the ids, would vary.
    """
    named = len(SPECIAL) + len(BYTES)
    rounded = [(piece, round(score, 9)) for piece, score in pieces[named:]]
    return pieces[:named] + sorted(rounded, key=lambda pair: (-pair[1], pair[0]))
