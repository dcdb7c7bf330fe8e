"""The cache: the only folder that tfzoo writes to, apart from the folders of runs. It holds
prepared data under keys made of what the data was made from.

An entry is a folder, which is renamed when it is complete: several processes can write it at once
without a lock. A file of checksums in it is compared before it is read.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from tfzoo.errors import TfzooError

SHELF = "prepared"
"""The folder of all entries inside the cache."""
CHECKSUMS = "checksums"
"""The file of an entry that holds the SHA-256 of each of the others, as JSON."""
DRAFT = ".filling-"
"""What the names of incomplete entries begin with."""


def folder() -> Path:
    """``$TFZOO_CACHE``, or ``tfzoo`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. It may not exist."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "tfzoo"
    return Path(os.environ.get("TFZOO_CACHE") or users).expanduser().absolute()


def size() -> int:
    """Bytes of prepared data in the cache, including incomplete entries."""
    return sum(path.lstat().st_size for path in (folder() / SHELF).rglob("*") if path.is_file())


def key(*parts: str) -> str:
    """A hash of these parts, for the name of an entry."""
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def entry(kind: str, name: str) -> Path:
    """The path of an entry, whether it exists or not."""
    return folder() / SHELF / f"{kind}-{name}"


def is_whole(path: Path) -> bool:
    """Whether an entry exists and is as it was written; one that is not is named on stderr."""
    damaged = damage(path) if path.is_dir() else None
    if damaged:
        print(
            f"data: the cache entry {path.name} is damaged ({damaged}) and is made again",
            file=sys.stderr,
        )
    return damaged == ""


def damage(path: Path) -> str:
    """The first file of an entry whose checksum is not that of its content; "" for none."""
    name = CHECKSUMS
    try:
        sums: dict[str, str] = dict(json.loads((path / CHECKSUMS).read_text("utf-8")))
        for name, expected in sums.items():
            if checksum(path / name) != expected:
                return name
    except (OSError, ValueError, TypeError):
        return name
    return ""


def checksum(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def filling(path: Path) -> Iterator[Path]:
    """A new folder to write to. It becomes the entry ``path`` if the block ends without an error.
    If a faster process has written the entry, that one stays, unless it is damaged.
    """
    shelf = path.parent
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=DRAFT, dir=shelf, ignore_cleanup_errors=True) as name:
            yield (draft := Path(name))
            checksums = {file.name: checksum(file) for file in draft.iterdir()}
            (draft / CHECKSUMS).write_text(json.dumps(checksums), "utf-8")
            if path.is_dir() and damage(path):
                shutil.rmtree(path)
            try:
                draft.rename(path)
            except OSError:
                if not path.is_dir():
                    raise
    except OSError as error:
        raise TfzooError(
            f"cannot write to the cache {shelf} ({error.strerror or error}); "
            "set TFZOO_CACHE to a folder with free space that you can write to"
        ) from error
