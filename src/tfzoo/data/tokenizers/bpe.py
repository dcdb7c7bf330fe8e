"""Byte pair encoding over characters, with single bytes for characters that training never saw."""

from __future__ import annotations

from collections.abc import Iterable

from tfzoo.data.library import BYTES, SMALLEST, SPECIAL, LibraryTokenizer, untrained
from tfzoo.errors import BadOption
from tfzoo.registry import register


@register("tokenizer", "bpe", paper="arXiv:1508.07909, section 3.2")
class BPE(LibraryTokenizer):
    """Join the most frequent pair of neighbouring symbols, again and again, until ``vocab_size``
    symbols are known.

    Sennrich et al. 2016, over characters as in section 3.2; spaces are characters like others (as
    in arXiv:1808.06226), so decoding is joining, and Chinese gets no spaces. Characters that
    training did not see (or rarely, where an alphabet takes over half of the vocabulary) become
    their UTF-8 bytes: nothing is ever unknown and ``decode(encode(x)) == x`` up to NFC.
    ``lowercase`` gives up case for good.

    Raises:
        BadOption: ``vocab_size`` under 260, the four special ids and the 256 bytes.
    """

    def __init__(self, *, vocab_size: int = 8000, lowercase: bool = False) -> None:
        if vocab_size < SMALLEST:
            raise BadOption(
                f"tokenizer 'bpe', option 'vocab_size': {vocab_size} is under {SMALLEST}, four special ids and 256 bytes"
            )
        self.vocab_size = vocab_size
        self.lowercase = lowercase

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines, read once; 60,000 short lines take a second."""
        from tokenizers import models, trainers

        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=[*SPECIAL, *BYTES],
            limit_alphabet=max(1, (self.vocab_size - SMALLEST) // 2),
            show_progress=False,
        )
        fresh = untrained(models.BPE(byte_fallback=True), lowercase=self.lowercase)
        fresh.train_from_iterator(lines, trainer)
        self._keep(fresh)
