"""The one folder outside of runs that tfzoo writes to: prepared data, named by what it was made
from.

An entry is a folder. It is filled under another name and gets its own when it is complete, so that
a process that dies or two that do the same work at once leave nothing that the next takes for
whole.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from tfzoo.errors import TfzooError

SHELF = "prepared"
"""All entries lie in this folder inside the cache, so that clearing it never touches what others
put beside it.
"""

DAY = 24 * 3600.0


def folder() -> Path:
    """``$TFZOO_CACHE``, or tfzoo's folder in the user's cache folder. It may not exist yet."""
    given = os.environ.get("TFZOO_CACHE")
    if given:
        return Path(given).expanduser().absolute()
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            / "tfzoo"
            / "cache"
        )
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tfzoo"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfzoo"


def size() -> int:
    """Bytes of prepared data in the cache, half-finished entries included."""
    return sum(file_size(path) for path in (folder() / SHELF).rglob("*"))


def clear() -> int:
    """Remove all prepared data; returns the bytes that were freed. It is made again when it is
    needed.
    """
    before = size()
    shutil.rmtree(folder() / SHELF, ignore_errors=True)
    return before - size()


def key(*parts: str) -> str:
    """A name for what is made from these parts, and from nothing else."""
    digest = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def entry(kind: str, name: str) -> Path:
    """Where the entry of this kind and name lies, or will lie."""
    return folder() / SHELF / f"{kind}-{name}"


@contextmanager
def filling(path: Path) -> Iterator[Path]:
    """A new folder to fill, which becomes the entry ``path`` when the block ends well.

    Raises:
        TfzooError: the cache folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent)
        draft = Path(tempfile.mkdtemp(prefix=".filling-", dir=path.parent))
    except OSError as error:
        raise unwritable(path.parent, error) from error
    try:
        yield draft
        for file in draft.iterdir():
            to_disk(file)
        publish(draft, path)
    except OSError as error:
        raise unwritable(path.parent, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def publish(draft: Path, path: Path) -> None:
    """Rename ``draft`` to ``path``.

    An entry that is there already, from a process that was faster or damaged, gets the new files
    one by one: its name never vanishes under a reader, and who has the old files open keeps them.
    """
    try:
        os.rename(draft, path)
    except OSError:
        if not path.is_dir():
            raise
        for file in draft.iterdir():
            os.replace(file, path / file.name)


def sweep(shelf: Path) -> None:
    """Remove what processes that died left half-finished over a day ago."""
    for draft in shelf.glob(".filling-*"):
        with suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > DAY:
                shutil.rmtree(draft, ignore_errors=True)


def to_disk(file: Path) -> None:
    """Wait until the file is on the disk: a name must not outlive its content when the machine
    stops.
    """
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())


def unwritable(shelf: Path, error: OSError) -> TfzooError:
    """The error for a cache that takes no more."""
    return TfzooError(
        f"cannot write to the cache {shelf} ({error.strerror or error}); set TFZOO_CACHE to a folder with room that is yours"
    )


def file_size(path: Path) -> int:
    """Bytes in a file; 0 for all else, also for a file that has just gone."""
    try:
        return path.lstat().st_size if path.is_file() else 0
    except OSError:
        return 0  # another process has just removed it
