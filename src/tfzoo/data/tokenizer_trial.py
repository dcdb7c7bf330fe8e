"""A stranger's tokenizer is first loaded and used in a process of its own, which may take so much
time and memory and no more, and may fail in any way.

``python -m tfzoo.data.tokenizer_trial`` is that process: it reads the text of a tokenizer from its
standard input, and prints why it refuses it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from hashlib import sha256

from tfzoo.errors import BadRun

SECONDS = 8
MEMORY = 2**30
"""Bytes of the process; Windows does not limit them."""
REFUSED = 3
"""The exit code with which a reason was printed."""
LINES = ["one two three", "", " ", "A1 \u00e9\u4e2d\U0001f600 <0x0A>", "word " * 500, "x" * 2000]


class Known:
    """Hashes of texts. In an object, since what a module holds is part of its fingerprint
    (:mod:`tfzoo.data.code_fingerprint`), and what it has seen is not.
    """

    def __init__(self) -> None:
        self.hashes: set[bytes] = set()


KNOWN = Known()
"""Of the texts that this process has tried, or that are of its own tokenizers."""


def trust(text: str) -> None:
    """Say that a text is of a tokenizer of this process."""
    KNOWN.hashes.add(digest(text))


def digest(text: str) -> bytes:
    """The hash of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def try_out(text: object) -> None:
    """Load and use a tokenizer of the library in a process of its own, unless this was done before.

    Raises:
        BadRun: it asks for what tfzoo's tokenizers do not, takes too much time or memory, or fails.
    """
    if not isinstance(text, str):
        raise BadRun(f"the checkpoint's contents do not match: its tokenizer is a {type(text)}")
    if digest(text) in KNOWN.hashes:
        return
    why = refusal(text)
    if why:
        raise BadRun(f"the checkpoint's contents do not match: its tokenizer is refused: {why}")
    trust(text)


def refusal(text: str) -> str:
    """Why a tokenizer is refused; ``""`` where it is not."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=text.encode("utf-8", "surrogatepass"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"trying it took more than {SECONDS} seconds"
    if done.returncode == REFUSED:
        return " ".join(done.stdout.decode("utf-8", "replace").split())[:200]
    return "" if done.returncode == 0 else "trying it took all memory, or ended its process"


def limit() -> None:
    """Limit the memory and the time of this process, and let it write no file when it crashes."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def use(text: str) -> None:
    """Check what a tokenizer asks for; then load it, encode, and decode what it gave."""
    from tfzoo.data.library import PIECES, SPECIAL, WORDS, LibraryTokenizer
    from tfzoo.data.tokenizer_claims import TooMuch, check_claims

    check_claims(text, SPECIAL, (PIECES, WORDS))
    tokenizer = LibraryTokenizer()
    tokenizer.restore(text)
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
