"""What tfzoo's tokenizers around Hugging Face's library ``tokenizers`` share. Each is one of the
library's models, in its own file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from tfzoo.base.registry import Entry
from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.base.values import check_range
from tfzoo.errors import BadOption

if TYPE_CHECKING:
    import tokenizers

SPECIAL = ("pad ", "unknown ", "begin ", "end ")
"""Names of the special ids, 0 to 3. No text is encoded as one of them: no piece of text ends with a
space after a letter.
"""

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The library's names of single bytes. PIECES splits them, so no piece of text is one of them."""

LARGEST = 10_000_000
"""The largest vocabulary. The library reserves memory for it before it trains."""

PIECES = r" ?\p{L}[\p{L}\p{M}]*| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""Splits text into words, numbers and runs of punctuation, each with the space before it, and runs
of spaces.
"""

WORDS = r" ?\S+|\s+"
"""Splits text at spaces only."""

LINE_ENDS = re.compile(r"[\r\n]")


class Compiled:
    """A tokenizer around that of a library which is not Python."""

    entry: ClassVar[Entry]
    special: SpecialIds = OWN
    library: Any = None
    """The library's tokenizer, after training or restoring."""

    def _trained(self) -> Any:
        if self.library is None:
            raise BadOption(
                f"tokenizer {self.entry.name!r} has no vocabulary yet: "
                "call train(lines) or restore(state) first"
            )
        return self.library

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The line of each list of ids. Special ids are skipped; a line end in the output of a
        model becomes a space.
        """
        special = self.special.every
        kept = [[one for one in line if one not in special] for line in ids]
        return [LINE_ENDS.sub(" ", text) for text in self._texts(kept)]

    def _texts(self, ids: list[list[int]]) -> list[str]:
        texts: list[str] = self._trained().decode_batch(ids)
        return texts


class LibraryTokenizer(Compiled):
    """Encodes text in normal form NFC, split into pieces. Spaces belong to the pieces, so that
    joining them restores the text.
    """

    smallest: ClassVar[int] = len(SPECIAL) + len(BYTES)
    """The smallest vocabulary; by default one that falls back to bytes."""

    def __init__(self, *, vocab_size: int = 8000, lowercase: bool = False) -> None:
        name = f"tokenizer {self.entry.name!r}, option 'vocab_size'"
        check_range(name, vocab_size, ge=self.smallest, le=LARGEST, whole=True)
        self.vocab_size, self.lowercase = vocab_size, lowercase

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        found = self._trained().encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def __len__(self) -> int:
        return int(self._trained().get_vocab_size())

    def state(self) -> str:
        """The library's own JSON."""
        return str(self._trained().to_str())

    def restore(self, state: str) -> None:
        self.library = loaded(state)
        ids = self.library.get_vocab().values()
        if sorted(ids) != list(range(len(ids))):
            raise ValueError("its vocabulary has other ids than 0, 1, 2 and so on")

    def _keep(self, fresh: tokenizers.Tokenizer, **model: Any) -> None:
        """Use this tokenizer of the library, with these settings of its model changed, and without
        looking for the names of special ids in text.
        """
        state = json.loads(fresh.to_str())
        state["added_tokens"] = []
        state["model"].update(model)
        self.restore(json.dumps(state, ensure_ascii=False))


def untrained(model: Any, *, lowercase: bool, pieces: str = PIECES) -> tokenizers.Tokenizer:
    """A tokenizer of the library around one of its models."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    # with a space in front, the first word of a line is encoded as elsewhere; the decoder strips it
    lower = [normalizers.Lowercase()] if lowercase else []
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), *lower, normalizers.Prepend(" ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), "isolated")
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def loaded(text: str) -> tokenizers.Tokenizer:
    """The library's tokenizer, which encodes the names of special tokens as any other text."""
    from tokenizers import Tokenizer

    quiet_forks()
    library = Tokenizer.from_str(text)
    library.no_padding()
    library.no_truncation()
    library.encode_special_tokens = True
    return library


@cache
def quiet_forks() -> None:
    """Switch the library's threads off when a process forks (workers of a DataLoader, say), where
    they would hang. The library does that itself, but warns on every fork.
    """
    if hasattr(os, "register_at_fork"):
        switch_off = partial(os.environ.setdefault, "TOKENIZERS_PARALLELISM", "false")
        os.register_at_fork(before=switch_off)
