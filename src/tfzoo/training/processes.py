"""The processes of a training: what they agree on, and which of them is gone."""

import os
import re
import signal
import time
from datetime import timedelta
from typing import Any

import lightning.pytorch as L
import torch
import torch.distributed as dist

ANSWER = timedelta(seconds=5)
"""How long each process has to answer the first, which asks who is there."""
MOMENT = 1.0
"""Seconds in which a process that has closed its connections ends."""
LOST = re.compile(r"gloo|NCCL|time.?out|Connection|peer|Broken pipe|TCPStore|socket", re.IGNORECASE)
"""Words in the errors of a process that waits for another one."""


class Processes(L.Callback):
    """All processes of a training, connected through their CPUs (gloo): to agree through NCCL, each
    would wait in every step until its GPU has finished. ``timeout`` are the seconds after which an
    operation that one process does not join fails in the others.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout, self.parent = timedelta(seconds=timeout), os.getppid()
        self._group: Any = None
        self._asked: Any = None  # a group whose operations were in order so far

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Keep Lightning from killing this process without a word where another one has failed."""
        launcher: Any = trainer.strategy.launcher
        if started := getattr(launcher, "procs", None):
            launcher.procs = [*started]
            started.clear()  # the list that Lightning watches

    def maximum(self, value: int) -> int:
        """The largest value of any process; all processes must call it. Where there is one process,
        its own value.
        """
        if not dist.is_initialized() or dist.get_world_size() < 2:
            return value
        if self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=self.timeout)
            self._asked = dist.new_group(backend="gloo", timeout=6 * ANSWER)
        found = torch.tensor(value)
        dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self._group)
        return int(found)

    def cause(self, error: BaseException, trainer: L.Trainer) -> str:
        """Which process is gone, where an error says that a collective was broken off; ``""`` for
        an error of this process. Those that Lightning has started are ended.
        """
        if trainer.world_size < 2 or not LOST.search(f"{type(error).__name__} {error}"):
            return ""
        time.sleep(MOMENT)
        launcher: Any = trainer.strategy.launcher
        started = enumerate(getattr(launcher, "procs", ()), trainer.global_rank + 1)
        lost = self.lost() or ", ".join(f"rank {rank}" for rank, one in started if one.poll())
        if launcher is not None:
            launcher.kill(signal.SIGKILL)  # a stopped process takes no other signal
            if lost == "rank 0" and os.getppid() == self.parent:  # which has started this one
                os.kill(self.parent, signal.SIGKILL)
        seconds = f"{self.timeout.total_seconds():g} seconds"
        if lost:
            return f"{lost} is gone: it was killed, has failed, or has hung for {seconds}"
        return f"another process is gone ({str(error).splitlines()[0][:120]})"

    def lost(self) -> str:
        """The processes that do not answer, such as ``rank 1``; all that live must call it."""
        if self._asked is None:
            return ""
        try:
            dist.monitored_barrier(self._asked, ANSWER, wait_all_ranks=True)
        except RuntimeError as error:
            if dist.get_rank():
                return "rank 0"
            found = re.search(r"Ranks? ([\d, ]+) failed", str(error))
            return f"rank {found[1].strip()}" if found else ""
        return ""
