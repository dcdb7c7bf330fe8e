"""Single characters, with a fallback to bytes."""

from collections import Counter
from collections.abc import Iterable

from tfzoo.base.registry import register
from tfzoo.data.tokenizer import BYTES, SPECIAL, LibraryTokenizer


@register("tokenizer", "character")
class Character(LibraryTokenizer):
    """Each character is a token; those beyond the ``vocab_size`` most frequent become UTF-8 bytes.

    Spaces are characters too. No token is unknown, and ``decode(encode(x)) == x`` up to NFC.
    ``lowercase`` converts text to lower case, which decoding does not undo.

    Raises:
        BadOption: ``vocab_size`` is under 260 (four special ids and 256 bytes) or over 10 million.
    """

    def __init__(self, *, vocab_size: int = 4000, lowercase: bool = False) -> None:
        super().__init__(vocab_size=vocab_size, lowercase=lowercase)

    def train(self, lines: Iterable[str]) -> None:
        """Choose the characters from these lines."""
        from tokenizers import Tokenizer, decoders, models, normalizers

        normalizer = normalizers.Sequence(
            [normalizers.NFC(), *([normalizers.Lowercase()] if self.lowercase else [])]
        )
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(normalizer.normalize_str(line))
        common = sorted(counts, key=lambda character: (-counts[character], character))
        kept = common[: self.vocab_size - self.smallest]
        names = {name: id for id, name in enumerate([*SPECIAL, *BYTES, *kept])}
        fresh = Tokenizer(models.BPE(names, [], byte_fallback=True))  # BPE without merges
        fresh.normalizer = normalizer
        fresh.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        self._keep(fresh)
