"""Ends a training on several processes when one dies or hangs, and names that process."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import lightning.pytorch as L

from tfzoo.base import adapters
from tfzoo.base.signals import INTERRUPTED, STOPPED
from tfzoo.training.last_checkpoint import HostGroup

TICK = 0.25
"""Seconds between two looks at other processes."""
GRACE = 5.0
"""Seconds that a process has to answer, or to end by itself once another has died."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
LOST = re.compile(r"gloo|NCCL|time.?out|Connection|peer|Broken pipe|TCPStore|socket", re.IGNORECASE)
"""Words in the errors of a process that waits for another one."""


class Watchdog:
    """Names the process that others wait for: by the exit code of those that Lightning has started,
    and by a barrier of all of them where a collective was not over in ``timeout`` seconds.

    A process that dies while others wait in NCCL would leave them waiting: a thread then calls
    ``on_failure`` with a message and ends this process.
    """

    def __init__(
        self, timeout: float, processes: HostGroup, on_failure: Callable[[str], None]
    ) -> None:
        self.timeout, self.processes = timedelta(seconds=timeout), processes
        self.on_failure = on_failure
        self.over = Event()
        self.children: list[Any] = []

    def start(self, trainer: L.Trainer) -> None:
        """Watch the processes that Lightning is about to start; in one of them, its parent."""
        self.trainer, self.parent = trainer, os.getppid()
        if trainer.world_size > 1:
            self.processes.timeout = self.timeout
            adapters.set_timeout(trainer.strategy, self.timeout)
            Thread(target=self._watch, daemon=True, name="watch").start()

    def cause(self, error: BaseException) -> str:
        """Which process failed, where an error says that a collective was broken off; ``""`` for an
        error of this process.
        """
        if self.trainer.world_size < 2 or not LOST.search(f"{type(error).__name__} {error}"):
            return ""
        hung, until = self.processes.missing(GRACE), time.monotonic() + GRACE
        while self.children and not (hung or self._dead()) and time.monotonic() < until:
            time.sleep(TICK)  # it has not ended yet
        seconds = f"{self.timeout.total_seconds():g} seconds"
        found = self._dead() or (f"{hung} hung: no sign of life for {seconds}" if hung else "")
        for child in self.children:
            child.kill()
        if hung == "rank 0" and self.trainer.strategy.launcher is not None:
            os.kill(self.parent, KILL)  # a stopped process takes no other signal
        return found or f"another process is gone ({str(error).splitlines()[0][:120]})"

    def _watch(self) -> None:
        while not self.over.wait(TICK):
            launcher: Any = self.trainer.strategy.launcher
            if not self.children and getattr(launcher, "procs", None):
                theirs = launcher.procs
                self.children, launcher.procs = list(theirs), list(theirs)
                theirs.clear()  # Lightning's observer, which would kill this process without a word
            if dead := self._dead():
                time.sleep(GRACE)
                if not self.over.is_set():
                    for child in self.children:
                        child.kill()
                    self.on_failure(dead)
                    os._exit(1)

    def _dead(self) -> str:
        """Which process ended otherwise than by a signal to the command; ``""`` while none has."""
        if self.trainer.local_rank and os.getppid() != self.parent:
            return "rank 0 is gone: killed, or ended without a word"
        first = self.trainer.node_rank * self.trainer.num_devices + 1
        codes = {rank: child.poll() for rank, child in enumerate(self.children, first)}
        for rank, code in codes.items():
            if code not in (None, 0, STOPPED, INTERRUPTED):
                died = f"was killed by {signal.Signals(-code).name}" if code < 0 else ""
                return f"rank {rank} {died or f'ended with exit code {code}'}"
        return ""
