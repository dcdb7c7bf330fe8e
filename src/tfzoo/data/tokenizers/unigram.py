"""Pieces of words chosen by a unigram language model, with single bytes for characters that
training never saw.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tfzoo.data.library import BYTES, SMALLEST, SPECIAL, LibraryTokenizer, untrained
from tfzoo.errors import BadOption
from tfzoo.registry import register


@register("tokenizer", "unigram", paper="arXiv:1804.10959, section 3.2")
class Unigram(LibraryTokenizer):
    """Cut text into the likeliest pieces, ``argmax sum_i log p(x_i)``; pieces that matter least are
    dropped until ``vocab_size`` are left.

    Kudo 2018. Spaces are characters like others, so decoding is joining. Characters that training
    did not see become their UTF-8 bytes: nothing is ever unknown and ``decode(encode(x)) == x`` up
    to NFC. ``lowercase`` gives up case for good.

    Raises:
        BadOption: ``vocab_size`` under 260, the four special ids and the 256 bytes.
    """

    def __init__(self, *, vocab_size: int = 8000, lowercase: bool = False) -> None:
        if vocab_size < SMALLEST:
            raise BadOption(
                f"tokenizer 'unigram', option 'vocab_size': {vocab_size} is under {SMALLEST}, four special ids and 256 bytes"
            )
        self.vocab_size = vocab_size
        self.lowercase = lowercase

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines, read once."""
        from tokenizers import models, trainers

        trainer = trainers.UnigramTrainer(
            vocab_size=self.vocab_size,
            special_tokens=[*SPECIAL, *BYTES],
            unk_token=SPECIAL[1],
            show_progress=False,
        )
        fresh = untrained(models.Unigram(), lowercase=self.lowercase)
        fresh.train_from_iterator(lines, trainer)
        self._keep(
            fresh, byte_fallback=True, vocab=ordered(json.loads(fresh.to_str())["model"]["vocab"])
        )


def ordered(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """By score, then by spelling: the library adds in any order, so that its last digits, and with
    them ids, would change by chance.
    """
    first, rest = pieces[:SMALLEST], pieces[SMALLEST:]
    return first + sorted(
        ((piece, round(score, 9)) for piece, score in rest), key=lambda pair: (-pair[1], pair[0])
    )
