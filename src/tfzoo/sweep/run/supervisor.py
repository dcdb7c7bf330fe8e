"""Run one training so that none of its processes outlives whoever started it.

A program of its own that imports nothing of tfzoo: ``python supervisor.py COMMAND ...``, or a fork
of the warm parent (:mod:`tfzoo.sweep.run.warm_parent`), in a
process group of its own, its standard input a pipe that nobody else holds. When whoever started it
ends, however it ends, the pipe closes and the whole group is killed, with the workers of data
loaders and further ranks. If the supervisor itself is killed, Linux kills the command. Windows has
no process groups: there the command alone is killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Protocol

HANDLED = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)
]
"""The signals that stop a training; Windows has no SIGUSR1."""
PR_SET_PDEATHSIG = 1
"""From ``<sys/prctl.h>``."""


class Training(Protocol):
    """The process that trains."""

    def send_signal(self, number: int, /) -> None:
        """Send it a signal."""

    def kill(self) -> None:
        """End it at once."""

    def wait(self) -> int:
        """Wait until it ends; its exit code, or minus the signal that ended it."""


def die_with_parent() -> None:
    """Let Linux kill this process when its parent ends."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_when_pipe_closes(training: Training) -> None:
    """Wait until standard input is closed, then kill the process group."""
    while os.read(0, 1):
        pass
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    training.kill()
    os._exit(1)


def supervise(start: Callable[[], Training]) -> int:
    """Start a training and pass signals on to it until it ends; returns its exit code, or minus the
    signal that ended it.
    """
    early: list[int] = []
    training: Training | None = None

    def forward(number: int, frame: object) -> None:
        if training is None:
            early.append(number)
        else:
            training.send_signal(number)

    for number in HANDLED:
        signal.signal(number, forward)
    training = start()
    threading.Thread(target=kill_when_pipe_closes, args=(training,), daemon=True).start()
    for number in early:
        training.send_signal(number)
    return training.wait()


def start_command() -> "subprocess.Popen[bytes]":
    """Start the command on the command line."""
    return subprocess.Popen(
        sys.argv[1:],
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent if os.name == "posix" else None,
    )


if __name__ == "__main__":
    code = supervise(start_command)
    if code < 0:  # end by the same signal
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
        signal.pause()
    os._exit(code)
