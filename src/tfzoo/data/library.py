"""What the tokenizers of Hugging Face's library ``tokenizers`` have in common; each is a model of
it in a file of its own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from tfzoo.data.tokenizer import END
from tfzoo.errors import BadOption
from tfzoo.registry import Entry

if TYPE_CHECKING:
    import tokenizers

SPECIAL = ("pad ", "unknown ", "begin ", "end ")
"""Names of ids 0 to 3: text is never searched for them, and no piece of text can spell one, as none
has a space after a letter.
"""

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The names that the library gives to single bytes. PIECES cuts through them, so no piece of text
can spell one.
"""

SMALLEST = len(SPECIAL) + len(BYTES)

PIECES = r" ?\p{L}[\p{L}\p{M}]*| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""Text is cut into words, numbers and runs of signs (each with one space before it) and runs of
spaces.
"""

WORDS = r" ?\S+|\s+"
"""The same, cut at spaces alone."""

LINE_ENDS = re.compile(r"[\r\n]")


class LibraryTokenizer:
    """Text in normal form NFC, cut into pieces, and ids back to text by joining: spaces are
    characters like others.
    """

    entry: ClassVar[Entry]
    library: tokenizers.Tokenizer | None = None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without begin and end."""
        return [
            encoding.ids
            for encoding in self._trained().encode_batch_fast(list(texts), add_special_tokens=False)
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """One line of text for each list of ids: ids 0 to 3 are dropped, a line end that a model
        made up becomes a space.
        """
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
            raise BadOption(
                f"tokenizer {self.entry.name!r} has no vocabulary yet: call train(lines) or restore(state) first"
            )
        return self.library

    def _keep(self, fresh: tokenizers.Tokenizer, **model: Any) -> None:
        """Be this tokenizer, with these settings of its model, and without searching text for the
        names of special ids.
        """
        state = json.loads(fresh.to_str())
        state["added_tokens"] = []
        state["model"].update(model)
        self.restore(json.dumps(state, ensure_ascii=False))


def untrained(model: Any, *, lowercase: bool, pieces: str = PIECES) -> tokenizers.Tokenizer:
    """The library's tokenizer around one of its models."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    # the space in front makes a first word the same as an inner one; the decoder takes it off again
    lower = [normalizers.Lowercase()] if lowercase else []
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), *lower, normalizers.Prepend(" ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), "isolated")
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


@cache
def quiet_forks() -> None:
    """Switch the library's threads off in forked children (of a DataLoader, say), where they hang,
    without its warning.
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
