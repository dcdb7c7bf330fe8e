"""The bytes of UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfzoo.data.library import LINE_ENDS
from tfzoo.data.tokenizer import END
from tfzoo.registry import register

FIRST = END + 1
"""The id of byte 0."""


@register("tokenizer", "bytes", paper="arXiv:2105.13626")
class Bytes:
    """Every byte of the text in UTF-8 is a token, ``byte + 4``: 260 ids, nothing to train, nothing
    unknown, three tokens for 你.

    As in ByT5 (Xue et al. 2021) but for its special ids. ``decode(encode(x)) == x``; bytes that are
    no UTF-8, as a model may write them, become U+FFFD.
    """

    def train(self, lines: Iterable[str]) -> None:
        """Nothing: all bytes are known. The lines are read, as every tokenizer does."""
        for _ in lines:
            pass

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without begin and end."""
        return [[byte + FIRST for byte in text.encode("utf-8", "replace")] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """One line of text for each list of ids: ids 0 to 3 are dropped, a line end that a model
        made up becomes a space.
        """
        kept = [bytes(token - FIRST for token in sentence if token >= FIRST) for sentence in ids]
        return [LINE_ENDS.sub(" ", text.decode("utf-8", "replace")) for text in kept]

    def __len__(self) -> int:
        return FIRST + 256

    def state(self) -> str:
        """Always the same."""
        return "bytes of UTF-8"

    def restore(self, state: str) -> None:
        """Nothing to restore."""
