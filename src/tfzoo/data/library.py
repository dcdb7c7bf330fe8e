"""What tfzoo's tokenizers around Hugging Face's library ``tokenizers`` share. Each is one of the
library's models, in its own file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from tfzoo.base.registry import Entry
from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.errors import BadOption

if TYPE_CHECKING:
    import tokenizers

SPECIAL = ("pad ", "unknown ", "begin ", "end ")
"""Names of the special ids, 0 to 3. No text is encoded as one of them: no piece of text ends with a
space after a letter.
"""

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The library's names of single bytes. PIECES splits them, so no piece of text is one of them."""

SMALLEST = len(SPECIAL) + len(BYTES)
"""The smallest vocabulary that falls back to bytes."""

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
    library: Any = None
    """The library's tokenizer, after training or restoring."""

    def _trained(self) -> Any:
        if self.library is None:
            raise BadOption(
                f"tokenizer {self.entry.name!r} has no vocabulary yet: "
                "call train(lines) or restore(state) first"
            )
        return self.library


class LibraryTokenizer(Compiled):
    """Encodes text in normal form NFC, split into pieces. Spaces belong to the pieces, so that
    joining them restores the text.
    """

    special: ClassVar[SpecialIds] = OWN

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        found = self._trained().encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The line of each list of ids. Special ids are skipped; a line end in the output of a
        model becomes a space.
        """
        kept = [[token for token in sentence if token >= len(SPECIAL)] for sentence in ids]
        return [LINE_ENDS.sub(" ", text) for text in self._trained().decode_batch(kept)]

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

    def _fit(self, fresh: tokenizers.Tokenizer, trainer: Any, lines: Iterable[str]) -> None:
        """Let the library train a tokenizer on these lines."""
        fresh.train_from_iterator(lines, trainer)

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
    """Switch the library's threads off in forked processes (workers of a DataLoader, say), where
    they would hang. The library does that itself, but warns on every fork.
    """
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
