"""Try a stranger's tokenizer: the process that :mod:`tfzoo.data.tokenizer_trial` starts. It reads
the text of a tokenizer from its standard input, and prints why it refuses it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from tfzoo.data.library import PIECES, SPECIAL, WORDS, LibraryTokenizer
from tfzoo.data.published_tokenizer import is_published, parts_of_state
from tfzoo.data.tokenizer_claims import TooMuch, check_claims, check_published_claims
from tfzoo.data.tokenizer_trial import MEMORY, REFUSED, SECONDS
from tfzoo.data.tokenizers.pretrained import Pretrained
from tfzoo.data.tokenizers.sentencepiece import SentencePiece

LINES = ["one two three", "", " ", "A1 \u00e9\u4e2d\U0001f600 <0x0A>", "word " * 500, "x" * 2000]


def limit() -> None:
    """Limit the memory and the time of this process, and let it write no file when it crashes."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def use(text: str) -> None:
    """Check what a tokenizer asks for; then load it, encode, and decode what it gave."""
    tokenizer: Any
    if is_published(text):
        check_published_claims(parts_of_state(text)[0])
        tokenizer = Pretrained()
    elif text.startswith('{"models":'):
        tokenizer = SentencePiece()
    else:
        check_claims(text, SPECIAL, (PIECES, WORDS))
        tokenizer = LibraryTokenizer()
    tokenizer.restore(text)
    use_one(tokenizer)
    if isinstance(tokenizer, SentencePiece):
        use_one(tokenizer.of_target())


def use_one(tokenizer: Any) -> None:
    """Encode, and decode what it gave."""
    ids = tokenizer.encode(LINES)
    size = len(tokenizer)
    if any(one >= size for line in ids for one in line):
        raise TooMuch("it gives ids that it does not have")
    if any(len(line) > 8 * len(text.encode()) + 8 for line, text in zip(ids, LINES, strict=True)):
        raise TooMuch("it makes text longer")
    tokenizer.decode([*ids, list(range(min(size, 10_000)))])


def main() -> int:
    """Try the text on standard input; the exit code."""
    limit()
    try:
        use(sys.stdin.buffer.read().decode())
    except MemoryError:
        return 1
    except BaseException as error:  # the library's PanicException is no Exception
        reason = str(error) if isinstance(error, ValueError) else type(error).__name__
        print((reason.splitlines() or [""])[0][:200])
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
