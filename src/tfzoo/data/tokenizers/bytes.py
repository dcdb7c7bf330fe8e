"""The bytes of UTF-8."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from tfzoo.base.registry import register
from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.data.tokenizer import LINE_ENDS

FIRST = len(OWN.every)
"""The id of byte 0."""


@register("tokenizer", "bytes", paper="arXiv:2105.13626")
class Bytes:
    """Each byte of the text in UTF-8 is a token, ``byte + 4``: 260 ids, without training.

    As in ByT5 (Xue et al. 2021), except for its special ids. No token is unknown, and
    ``decode(encode(x)) == x``. Bytes that are not UTF-8, which a model may generate, are decoded as
    U+FFFD.
    """

    special: ClassVar[SpecialIds] = OWN

    def train(self, lines: Iterable[str]) -> None:
        """Nothing is learnt: all bytes are known."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        return [[byte + FIRST for byte in text.encode("utf-8", "replace")] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The line of each list of ids. Special ids are skipped; a line end in the output of a
        model becomes a space.
        """
        kept = [bytes(token - FIRST for token in sentence if token >= FIRST) for sentence in ids]
        return [LINE_ENDS.sub(" ", text.decode("utf-8", "replace")) for text in kept]

    def __len__(self) -> int:
        return FIRST + 256

    def state(self) -> str:
        """A constant: there is no state."""
        return "bytes of UTF-8"

    def restore(self, state: str) -> None:
        """Nothing to restore."""
