"""What a tokenizer must offer, and the pair of them that a translator uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tfzoo.registry import Spec, create

PAD, UNKNOWN, BEGIN, END = range(4)
"""The ids that no text can become: every tokenizer leaves 0 to 3 to them."""


class Tokenizer(Protocol):
    """Text to ids and back. A component of kind ``tokenizer`` in ``data/tokenizers/``, made by its
    options alone.

    ``decode(encode([text])) == [text]`` up to Unicode's normal form NFC; ids 0 to 3 (:data:`PAD`,
    :data:`UNKNOWN`, :data:`BEGIN`, :data:`END`) come from no text, not even from one that spells
    their names.
    """

    def train(self, lines: Iterable[str]) -> None:
        """Choose the vocabulary from these lines, read once."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without begin and end; many texts at once are the fast way. An empty
        text has no ids.
        """

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """One line of text for each list of ids; ids 0 to 3 are dropped."""

    def __len__(self) -> int:
        """The number of ids, the four special ones included."""

    def state(self) -> str:
        """All that training chose, as text."""

    def restore(self, state: str) -> None:
        """Become the tokenizer whose :meth:`state` this is."""


@dataclass
class TokenizerPair:
    """The tokenizers of a translator; ``source`` and ``target`` are one object where the vocabulary
    is joint.

    ``source_language`` and ``target_language`` are codes such as ``"en"``, ``"de"``, ``"zh"``; the
    target's chooses how BLEU cuts words. ``spec`` is the name and options that made the tokenizers.
    """

    source: Tokenizer
    target: Tokenizer
    source_language: str
    target_language: str
    spec: Spec = "bpe"

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary, so that embeddings can be shared too."""
        return self.source is self.target

    def state(self) -> dict[str, Any]:
        """Plain values that :meth:`restore` turns back into these languages; part of every
        checkpoint.
        """
        tokenizers = [self.source] if self.joint else [self.source, self.target]
        return {
            "languages": [self.source_language, self.target_language],
            "tokenizer": self.spec if isinstance(self.spec, str) else dict(self.spec),
            "states": [tokenizer.state() for tokenizer in tokenizers],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> TokenizerPair:
        """The languages whose :meth:`state` this is; needs neither text nor cache."""
        tokenizers = []
        for text in state["states"]:
            tokenizer: Tokenizer = create("tokenizer", state["tokenizer"])
            tokenizer.restore(text)
            tokenizers.append(tokenizer)
        source_language, target_language = state["languages"]
        return cls(
            tokenizers[0], tokenizers[-1], source_language, target_language, state["tokenizer"]
        )
