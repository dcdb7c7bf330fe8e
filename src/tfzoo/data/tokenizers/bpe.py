"""Byte pair encoding over characters, with a fallback to bytes."""

from collections.abc import Iterable

from tfzoo.base.registry import register
from tfzoo.data.tokenizer import BYTES, SPECIAL, LibraryTokenizer, untrained


@register("tokenizer", "bpe", paper="arXiv:1508.07909, section 3.2")
class BPE(LibraryTokenizer):
    """Merge the most frequent pair of adjacent symbols until there are ``vocab_size`` symbols.

    Sennrich et al. 2016, over characters as in section 3.2. Spaces are ordinary characters (as in
    arXiv:1808.06226), so that decoding is concatenation and Chinese gets no spaces. A character
    that is not in the vocabulary becomes its UTF-8 bytes: no token is unknown, and
    ``decode(encode(x)) == x`` up to NFC. At most half of the vocabulary is single characters.
    ``lowercase`` converts text to lower case, which decoding does not undo.

    Raises:
        BadOption: ``vocab_size`` is under 260 (four special ids and 256 bytes) or over 10 million.
    """

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines; 60,000 short ones take a second."""
        from tokenizers import models, trainers

        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=[*SPECIAL, *BYTES],
            limit_alphabet=max(1, (self.vocab_size - self.smallest) // 2),
            show_progress=False,
        )
        fresh = untrained(models.BPE(byte_fallback=True), lowercase=self.lowercase)
        fresh.train_from_iterator(lines, trainer)
        self._keep(fresh)
