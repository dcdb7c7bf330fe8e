"""One writer a folder.

The lock is one of the operating system, which frees it when the process ends, however it ends.
Beside it lies a lease, which names the host and the process and is renewed while that lives: not
all shared file systems pass locks on to other hosts. A folder whose holder has died is free at once
on the same host, and on another one after :data:`LEASE` seconds without a sign of life.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic

from filelock import FileLock, SoftFileLease, Timeout

from tfzoo.base.terminal import notify_from_any_rank
from tfzoo.errors import BadRun

LOCK, LOCK_OWNER = "lock", "lock.owner"
"""The files of a lock, which count as nothing in a folder."""
LEASE = 60.0
BEAT = 10.0
"""Seconds between two signs of life."""
MOMENT = 0.5
"""Seconds that a process which only looks whether a folder is held may hold it."""
POLL = 0.02
UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}
"""Errors of file systems without locks, where the lease stands alone."""
PASSED = "TFZOO_LOCK"
"""The environment variable by which a sweep lets the training that it starts into the folder that
it holds.
"""


class Held(BadRun):
    """Another process holds the folder."""


@contextmanager
def holding(folder: Path, patience: float | None = None) -> Iterator[str]:
    """Hold a folder, which exists. Yields what :data:`PASSED` must be for a process to be let in.

    Args:
        patience: seconds to wait whether a holder on another host gives a sign of life; None: as
            long as its lease lasts.

    Raises:
        Held: another process holds it; the message names host and process.
        BadRun: it cannot be locked.
    """
    patience = LEASE if patience is None else patience
    lease = SoftFileLease(
        folder / LOCK_OWNER, lease_duration=LEASE, heartbeat_interval=BEAT, on_compromise=end
    )
    if (owner := lease.owner) and owner.token == os.environ.get(PASSED):
        yield str(owner.token)
        return
    with ExitStack() as held:
        holder = Holder(folder, lease)
        try:
            try:
                system = FileLock(folder / LOCK)
                held.enter_context(system.acquire(patience, POLL, cancel_check=holder.lives))
                if holder.is_here():  # it has died, or the folder is a copy of its folder
                    lease.force_break()
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
            held.callback(remove, folder / LOCK)
            holder.locks = False
            held.enter_context(lease.acquire(patience + BEAT, POLL, cancel_check=holder.lives))
        except Timeout:
            raise Held(
                f"{folder} is in use by {holder.name}: wait until it has ended, or name another "
                "folder with --run"
            ) from None
        except OSError as error:
            raise BadRun(f"cannot lock {folder}: {error.strerror or error}") from None
        yield str(lease.token)


class Holder:
    """Who holds a folder, as far as its lease says so. ``locks``: it has the system's lock."""

    def __init__(self, folder: Path, lease: SoftFileLease) -> None:
        self.folder, self.lease, self.since = folder, lease, monotonic()
        self.name, self.locks = "another process", True
        self.signs: set[tuple[int, int]] = set()
        self.told = False

    def is_here(self) -> bool:
        """Whether it is a process of this host."""
        owner = self.lease.owner
        return owner is not None and host(owner.hostname) == socket.gethostname()

    def lives(self) -> bool:
        """Whether it is known to live. One on another host may have died, also where the file
        server still keeps its lock, unless it has renewed its lease since this was first asked.
        """
        owner = self.lease.owner
        if owner is not None:
            self.name = f"process {owner.pid} on {host(owner.hostname)}"
            with suppress(OSError):
                found = (self.folder / LOCK_OWNER).stat()
                self.signs.add((found.st_mtime_ns, found.st_ino))
        if monotonic() - self.since < MOMENT:
            return False
        if len(self.signs) > 1 or (self.locks and (owner is None or self.is_here())):
            return True
        if not self.told:
            self.told = True
            notify_from_any_rank(
                f"{self.folder} was last in use by {self.name}; waiting up to {LEASE:.0f} s for a "
                "sign of life"
            )
        return False


def host(name: str) -> str:
    """The name of a host without what is added in a lease to tell containers apart."""
    return name.partition("?")[0]


def remove(path: Path) -> None:
    """Remove the file of a lock that is held: who waits for it notices, and makes another one."""
    with suppress(OSError):
        path.unlink()


def end(lost: object) -> None:
    """End this process, whose lease another one may have taken: it was paused, or did not reach the
    file system, for too long.
    """
    notify_from_any_rank(
        f"lost the lock of its folder ({getattr(lost, 'reason', '')}): this process ends"
    )
    os._exit(1)
