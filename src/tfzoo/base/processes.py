"""A process among those of one training: its rank, and the signals that end it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 75
"""Exit code after SIGTERM or SIGUSR1: stopped from outside, can go on."""
INTERRUPTED = 130
CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: STOPPED}
if hasattr(signal, "SIGUSR1"):
    CODES[signal.SIGUSR1] = STOPPED


def rank() -> int:
    """The rank of this process among all, as Lightning finds it; 0 where there is one process.

    torchrun sets ``RANK`` and srun ``SLURM_PROCID``. Where another launcher leaves
    ``LOCAL_WORLD_SIZE`` out, ranks on further machines are only known to be above 0.
    """
    known = _number("RANK")
    if known is None and "SLURM_NTASKS" in os.environ:
        known = _number("SLURM_PROCID")
    if known is None:
        node = _number("NODE_RANK") or _number("GROUP_RANK") or 0
        known = node * (_number("LOCAL_WORLD_SIZE") or 1) + (_number("LOCAL_RANK") or 0)
    return known


def local_rank() -> int:
    """The rank of this process among those that a launcher has started on this machine."""
    return _number("LOCAL_RANK") or _number("SLURM_LOCALID") or 0


def _number(variable: str) -> int | None:
    """An environment variable as a number; None where it is not set or no number."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else None


class Stopped(SystemExit):
    """A signal ends this command; ``code`` is its exit code."""


class Arrivals:
    """The signals that came to this process since its command began. They end it, or are noted
    while a training holds them, but for a second Ctrl-C. ``code`` is the exit code that they ask
    for. ``requeues``: SIGUSR1 came, by which SLURM says that it is about to end the job.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what came."""
        self.process = os.getpid()
        self.code = 0
        self.requeues = self.held = False

    def install(self) -> None:
        """Handle the signals; outside the main thread, whose owner keeps them, nothing is done."""
        if threading.current_thread() is threading.main_thread():
            for number in CODES:
                signal.signal(number, self.arrived)

    def arrived(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        if os.getpid() != self.process:  # a worker of a data loader: its parent decides
            if number != signal.SIGINT:
                os._exit(CODES[signal.Signals(number)])
            return
        again = number == signal.SIGINT and self.code == INTERRUPTED
        self.requeues |= signal.Signals(number).name == "SIGUSR1"
        self.code = max(self.code, CODES[signal.Signals(number)])
        if again and self.held:
            raise KeyboardInterrupt
        if not self.held:
            raise Stopped(self.code)


ARRIVALS = Arrivals()


@contextmanager
def heard() -> Iterator[None]:
    """Context of a command that any of the signals ends with :class:`Stopped`."""
    before = {number: signal.getsignal(number) for number in CODES}
    ARRIVALS.reset()
    ARRIVALS.install()
    try:
        yield
    finally:
        ARRIVALS.reset()
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
