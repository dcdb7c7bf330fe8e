"""The processes in which runs are trained: each a new Python, or a fork of a warm parent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import IO, Protocol

from tfzoo.base.terminal import notify
from tfzoo.sweep.run import supervisor, warm_parent

SIGKILL = 9
"""``signal.SIGKILL``, which Windows does not have."""


class Child(Protocol):
    """The supervisor of a training, which leads its process group. It kills the training when its
    standard input closes.
    """

    pid: int
    stdin: IO[bytes] | None

    def send_signal(self, sig: int) -> None:
        """Send it a signal, which it passes on."""

    def wait(self) -> int:
        """Wait until it ends; the training's exit code, or minus the signal that ended it."""


Start = Callable[[list[str], Mapping[str, str], IO[bytes]], Child]
"""Starts a command of Python in an environment; what it prints goes to the open file."""


def start(command: list[str], environment: Mapping[str, str], output: IO[bytes]) -> Child:
    """Start a command in a new Python."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        process_group=0 if os.name == "posix" else None,
    )


class ForkedSupervisor:
    """A supervisor that the warm parent has forked.

    Raises:
        ConnectionError: the warm parent ended before it forked.
    """

    def __init__(self, life: IO[bytes], status: IO[bytes]) -> None:
        self.stdin: IO[bytes] | None = life
        self.status = status
        if not (line := status.readline()):
            raise ConnectionError
        self.pid = int(line)

    def send_signal(self, sig: int) -> None:
        """Send it a signal, which it passes on."""
        os.kill(self.pid, sig)

    def wait(self) -> int:
        """Wait until it ends. One that was killed has no exit code to tell."""
        with self.status:
            return int(self.status.readline() or -SIGKILL)


class WarmParent:
    """The client of :mod:`tfzoo.sweep.run.warm_parent`, which imports PyTorch, Lightning and tfzoo
    once and then forks each training. Any thread may call :meth:`start`.

    Args:
        modules: that all trainings import.
        arguments: of ``tfzoo fit`` for one of the runs, whose recipe is resolved; may be empty.
        environment: of all trainings; libraries read their number of threads when they are
            imported.
    """

    def __init__(
        self, modules: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.words, self.environment = [",".join(modules), *arguments], environment
        self.lock = Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.requests: socket.socket | None = None

    def start(self, command: list[str], environment: Mapping[str, str], output: IO[bytes]) -> Child:
        """Start a command of ``-m MODULE ...`` in a fork. A warm parent that has died is replaced;
        if its successor dies, too, the command is started in a new Python.
        """
        with self.lock:
            for _ in range(2):
                if self.process is None:
                    self.launch()
                with suppress(ConnectionError):
                    return self.fork(command, environment, output)
                code = self.close()
                notify(f"tfzoo: the process that forks trainings ended (exit code {code})")
        return start(command, environment, output)

    def launch(self) -> None:
        """Start the process. Only the sweep holds the other end of its socket."""
        self.requests, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", warm_parent.__name__, *self.words],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self.environment,
                process_group=0,
            )

    def fork(
        self, command: list[str], environment: Mapping[str, str], output: IO[bytes]
    ) -> ForkedSupervisor:
        """Request a fork.

        Raises:
            ConnectionError: the process has ended.
        """
        life_out, life_in = os.pipe()
        status_out, status_in = os.pipe()
        life, status = os.fdopen(life_in, "wb"), os.fdopen(status_out, "rb")
        try:
            try:
                if self.requests is None:
                    raise ConnectionError
                socket.send_fds(self.requests, [b"+"], [life_out, status_in, output.fileno()])
            finally:
                os.close(life_out)
                os.close(status_in)
            request = {"command": command, "environment": dict(environment)}
            life.write(json.dumps(request).encode() + b"\n")
            life.flush()
            return ForkedSupervisor(life, status)
        except BaseException:
            with suppress(ConnectionError):
                life.close()
            status.close()
            raise

    def close(self) -> int:
        """End the process; trainings go on. Returns its exit code."""
        if self.requests is not None:
            self.requests.close()
        code = 0
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            code = self.process.wait()
        self.process = self.requests = None
        return code
