"""Byte pair encoding over characters, with single bytes for characters that training never saw."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from tfzoo.data.tokenizer import END
from tfzoo.errors import BadOption
from tfzoo.registry import register

if TYPE_CHECKING:
    import tokenizers

SPECIAL = ("pad ", "unknown ", "begin ", "end ")
"""Names of ids 0 to 3: text is never searched for them, and no merge can spell one, as no piece has a space after a letter."""

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The names that the library gives to single bytes. PIECES cuts through them, so no merge can spell one."""

SMALLEST = len(SPECIAL) + len(BYTES)

PIECES = r" ?\p{L}[\p{L}\p{M}]*| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""Merges stay inside a word, a number, a run of signs (each with one space before it) or a run of spaces."""

LINE_ENDS = re.compile(r"[\r\n]")


@register("tokenizer", "bpe", paper="arXiv:1508.07909, section 3.2")
class BPE:
    """Join the most frequent pair of neighbouring symbols, again and again, until ``vocab_size`` symbols are known.

    Sennrich et al. 2016, over characters as in section 3.2; spaces are characters like others (as in arXiv:1808.06226), so
    decoding is joining, and Chinese gets no spaces. Characters that training did not see (or rarely, where an alphabet takes
    over half of the vocabulary) become their UTF-8 bytes: nothing is ever unknown and ``decode(encode(x)) == x`` up to
    NFC. ``lowercase`` gives up case for good.

    Raises:
        BadOption: ``vocab_size`` under 260, the four special ids and the 256 bytes.
    """

    def __init__(self, *, vocab_size: int = 8000, lowercase: bool = False) -> None:
        if vocab_size < SMALLEST:
            raise BadOption(f"tokenizer 'bpe', option 'vocab_size': {vocab_size} is under {SMALLEST}, four special ids and 256 bytes")
        self.vocab_size = vocab_size
        self.lowercase = lowercase
        self.library: tokenizers.Tokenizer | None = None

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines, read once; 60,000 short lines take a second."""
        from tokenizers import trainers

        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=[*SPECIAL, *BYTES],
            limit_alphabet=max(1, (self.vocab_size - SMALLEST) // 2),
            show_progress=False,
        )
        fresh = self._untrained()
        fresh.train_from_iterator(lines, trainer)
        state = json.loads(fresh.to_str())
        state["added_tokens"] = []  # else their names would be looked for in every text
        self.restore(json.dumps(state, ensure_ascii=False))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without begin and end."""
        return [encoding.ids for encoding in self._trained().encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """One line of text for each list of ids: ids 0 to 3 are dropped, a line end that a model made up becomes a space."""
        kept = [[token for token in sentence if token > END] for sentence in ids]
        return [LINE_ENDS.sub(" ", text) for text in self._trained().decode_batch(kept)]

    def __len__(self) -> int:
        return self._trained().get_vocab_size()

    def state(self) -> str:
        """The library's own JSON."""
        return self._trained().to_str()

    def restore(self, state: str) -> None:
        from tokenizers import Tokenizer

        quiet_forks()
        self.library = Tokenizer.from_str(state)

    def _trained(self) -> tokenizers.Tokenizer:
        if self.library is None:
            raise BadOption("tokenizer 'bpe' has no vocabulary yet: call train(lines) or restore(state) first")
        return self.library

    def _untrained(self) -> tokenizers.Tokenizer:
        from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

        tokenizer = Tokenizer(models.BPE(byte_fallback=True))
        # the space in front makes a first word the same as an inner one; the decoder takes it off again
        lower = [normalizers.Lowercase()] if self.lowercase else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *lower, normalizers.Prepend(" ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), "isolated")
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        return tokenizer


@cache
def quiet_forks() -> None:
    """Switch the library's threads off in forked children (of a DataLoader, say), where they hang, without its warning."""
    switch = "TOKENIZERS_PARALLELISM"
    ours: list[bool] = []

    def before() -> None:
        ours[:] = [switch not in os.environ]
        os.environ.setdefault(switch, "false")

    def after_in_parent() -> None:
        if ours == [True]:
            del os.environ[switch]

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after_in_parent)
