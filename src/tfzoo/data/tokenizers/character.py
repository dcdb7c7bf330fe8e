"""Single characters, with single bytes for those that training never saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tfzoo.data.library import BYTES, SMALLEST, SPECIAL, LibraryTokenizer
from tfzoo.errors import BadOption
from tfzoo.registry import register


@register("tokenizer", "character")
class Character(LibraryTokenizer):
    """Every character, spaces too, is a token: the most frequent ones up to ``vocab_size``; all
    others become their UTF-8 bytes.

    Nothing is ever unknown and ``decode(encode(x)) == x`` up to NFC. ``lowercase`` gives up case
    for good.

    Raises:
        BadOption: ``vocab_size`` under 260, the four special ids and the 256 bytes.
    """

    def __init__(self, *, vocab_size: int = 4000, lowercase: bool = False) -> None:
        if vocab_size < SMALLEST:
            raise BadOption(
                f"tokenizer 'character', option 'vocab_size': {vocab_size} is under {SMALLEST}, four special ids and 256 bytes"
            )
        self.vocab_size = vocab_size
        self.lowercase = lowercase

    def train(self, lines: Iterable[str]) -> None:
        """Choose the characters from these lines, read once."""
        from tokenizers import Tokenizer, decoders, models, normalizers

        normalizer = normalizers.Sequence(
            [normalizers.NFC(), *([normalizers.Lowercase()] if self.lowercase else [])]
        )
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(normalizer.normalize_str(line))
        common = sorted(counts, key=lambda character: (-counts[character], character))[
            : self.vocab_size - SMALLEST
        ]
        names = {name: id for id, name in enumerate([*SPECIAL, *BYTES, *common])}
        fresh = Tokenizer(models.BPE(names, [], byte_fallback=True))  # pairs that are never joined
        fresh.normalizer = normalizer
        fresh.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        self._keep(fresh)
