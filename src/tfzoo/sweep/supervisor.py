"""Run one command so that none of its processes outlives whoever started it.

A program of its own that imports nothing of tfzoo: ``python supervisor.py COMMAND ...``, in a
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

PR_SET_PDEATHSIG = 1
"""From ``<sys/prctl.h>``."""


def die_with_parent() -> None:
    """Let Linux kill this process when its parent ends."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_when_pipe_closes(child: "subprocess.Popen[bytes]") -> None:
    """Wait until standard input is closed, then kill the process group."""
    while os.read(0, 1):
        pass
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    child.kill()
    os._exit(1)


def main() -> int:
    """Run the command; returns its exit code, or minus the signal that ended it."""
    early: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, frame: object) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), forward)
    child = subprocess.Popen(
        sys.argv[1:],
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent if os.name == "posix" else None,
    )
    threading.Thread(target=kill_when_pipe_closes, args=(child,), daemon=True).start()
    for number in early:
        child.send_signal(number)
    return child.wait()


if __name__ == "__main__":
    code = main()
    if code < 0:  # end by the same signal
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
        signal.pause()
    os._exit(code)
