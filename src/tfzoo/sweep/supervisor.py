"""Runs one command so that nothing of it outlives whoever started it.

A program of its own, without any of tfzoo: ``python guard.py COMMAND ...``, in a process group of
its own, its standard input a pipe that nobody else holds. When whoever started it is gone, by
whatever end, the pipe closes and the whole group is killed, workers of data loaders and further
ranks too. Should this process be killed itself, Linux kills the command.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading

DIE_WITH_PARENT = 1
"""``PR_SET_PDEATHSIG`` of ``<sys/prctl.h>``."""


def bind() -> None:
    """Let Linux kill this process when its parent ends."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(DIE_WITH_PARENT, signal.SIGKILL)


def watch() -> None:
    """Kill the group when the pipe closes."""
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Run the command; returns its exit code, or minus the signal that ended it."""
    early: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, frame: object) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    for handled in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(handled, forward)
    child = subprocess.Popen(
        sys.argv[1:], stdin=subprocess.DEVNULL, preexec_fn=bind, close_fds=False
    )
    threading.Thread(target=watch, daemon=True).start()
    for asked in early:
        child.send_signal(asked)
    return child.wait()


if __name__ == "__main__":
    code = main()
    if code < 0:  # end as it did
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
        signal.pause()
    os._exit(code)
