"""A process that has imported everything a training needs, and forks each training of a sweep.

``python -m tfzoo.sweep.run.warm_parent MODULES RECIPE OPTIONS ...``, its standard input one end of
a socket. It imports the modules, whose names are joined by commas, and resolves the recipe, if
there is one. A request is three open files: a pipe that closes when the sweep ends, a pipe for the
process id and the exit code, and the file for what the training prints. The first pipe holds the
command and its environment as one line of JSON. Each request is answered by a fork that becomes a
supervisor (:mod:`tfzoo.sweep.run.supervisor`), whose fork trains. So a training is a process of its
own, whose peak memory begins at what the imports take.

A fork copies only the thread that forks. This process therefore starts no thread and computes
nothing: no tensor, no OpenMP region, no CUDA. It ends when the sweep closes the socket, and at
once, also while it imports, when the sweep ends.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from tfzoo.sweep.run.supervisor import HANDLED, die_with_parent, supervise


class ForkedTraining:
    """The forked process that trains, as its supervisor sees it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def send_signal(self, number: int) -> None:
        """Send it a signal; nothing if it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        """Wait until it ends; its exit code, or minus the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def main(modules: list[str], arguments: list[str]) -> None:
    """Import, then fork for each request."""
    die_with_parent()
    requests = socket.socket(fileno=0)
    if has_hung_up(requests):  # before Linux was told
        return
    warm_up(modules, arguments)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the supervisors
    if given := serve(requests):
        requests.close()
        become_supervisor(*given)


def has_hung_up(requests: socket.socket) -> bool:
    """Whether nobody holds the other end of a socket."""
    poll = select.poll()
    poll.register(requests, 0)
    return bool(poll.poll(0))


def warm_up(modules: list[str], arguments: list[str]) -> None:
    """Import modules, and resolve the recipe of the first run, which imports what its runs need. A
    training reports its own errors, so none is reported here.
    """
    with suppress(Exception):
        for name in modules:
            import_module(name)
        if arguments:
            from tfzoo.config.resolve import resolve
            from tfzoo.config.sources import Arguments, load_recipe, parse_options

            resolve(load_recipe(arguments[0]), Arguments(parse_options(arguments[1:])))
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page that it marks


def serve(requests: socket.socket) -> list[int] | None:
    """Fork for each request. Returns its files in the fork, and None here after the last one."""
    while True:
        _, files, _, _ = socket.recv_fds(requests, 1, 3, socket.MSG_CMSG_CLOEXEC)
        if not files or os.fork() == 0:
            return files or None
        for file in files:
            os.close(file)


def become_supervisor(life: int, status: int, output: int) -> None:
    """Supervise the training of one request in a process group of its own. Returns only in the
    training's process, after it has trained.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    for file, number in ((life, 0), (output, 1), (output, 2)):
        os.dup2(file, number)
    os.close(life)
    os.close(output)
    request = json.loads(read_line(0))
    os.environ.clear()
    os.environ.update(request["environment"])
    code = supervise(lambda: fork_training(request["command"], status))
    os.write(status, f"{code}\n".encode())
    os._exit(0)


def fork_training(command: list[str], status: int) -> ForkedTraining:
    """Fork the process that trains. In that process this does not return: it raises SystemExit with
    the exit code of the command.
    """
    os.write(status, f"{os.getpid()}\n".encode())  # from now on signals are passed on
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return ForkedTraining(pid)
    die_with_parent()
    for number in HANDLED:
        default: Any = signal.SIG_DFL
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else default)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(status)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _, module, *rest = command
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit(0)


def read_line(file: int) -> bytes:
    """The bytes of an open file up to the end of the line."""
    found = b""
    while not found.endswith(b"\n"):
        if not (read := os.read(file, 2**16)):
            break
        found += read
    return found


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2:])
