"""One writer a folder: a lock of the operating system, which frees it when the process ends,
however it ends, and on a shared file system as far as that passes locks on to other hosts.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from tfzoo.errors import BadRun

LOCK, LOCK_OWNER = "lock", "lock.owner"
"""The files of a lock, which count as nothing in a folder; the second says who holds it."""
MOMENT = 0.5
"""Seconds that a process which only looks whether a folder is held may hold it."""
PASSED = "TFZOO_LOCK"
"""The environment variable by which a sweep lets the training that it starts into the folder that
it holds.
"""


class Held(BadRun):
    """Another process holds the folder."""


@contextmanager
def holding(folder: Path, patience: float = MOMENT) -> Iterator[str]:
    """Hold a folder, which exists; ``patience`` are the seconds to wait for it. Yields what
    :data:`PASSED` must be for a process to be let in.

    Raises:
        Held: another process holds it; the message names host and process.
        BadRun: it cannot be locked.
    """
    token, owner = str(folder.resolve()), folder / LOCK_OWNER
    if os.environ.get(PASSED) == token:
        yield token
        return
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(patience)
        owner.write_text(f"process {os.getpid()} on {socket.gethostname()}", "utf-8")
    except Timeout:
        holder = owner.read_text("utf-8") if owner.is_file() else ""
        raise Held(
            f"{folder} is in use by {holder or 'another process'}: wait until it has ended, or "
            "name another folder with --run"
        ) from None
    except (OSError, NotImplementedError) as error:  # a file system without locks
        raise BadRun(f"cannot lock {folder}: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield token
    finally:
        with suppress(OSError):
            owner.unlink()
            (folder / LOCK).unlink()  # who waits for it notices, and makes another one
        lock.release()
