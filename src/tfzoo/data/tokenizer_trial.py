"""A stranger's tokenizer is first loaded and used in a process of its own, which may take so much
time and memory and no more, and may fail in any way.
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256

from tfzoo.errors import BadRun

PROCESS = "tfzoo.data.tokenizer_process"
SECONDS = 8
MEMORY = 2**30
"""What the process may take, in bytes; Windows does not limit them."""
REFUSED = 3
"""The exit code with which a reason was printed."""


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


MISMATCH = "the checkpoint's contents do not match: its tokenizer"


def try_out(text: object, called: str = MISMATCH) -> None:
    """Load and use a tokenizer of the library in a process of its own, unless this was done before;
    ``called`` is what an error says of it.

    Raises:
        BadRun: it asks for what tfzoo's tokenizers do not, takes too much time or memory, or fails.
    """
    if not isinstance(text, str):
        raise BadRun(f"{called} is a {type(text)}")
    if digest(text) in KNOWN.hashes:
        return
    why = refusal(text)
    if why:
        raise BadRun(f"{called} is refused: {why}")
    trust(text)


def refusal(text: str) -> str:
    """Why a tokenizer is refused; ``""`` where it is not."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", PROCESS],
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
