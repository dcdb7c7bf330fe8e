"""Ends a training on several processes when one dies or hangs, and names that process."""

from __future__ import annotations

import os
import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import lightning.pytorch as L
import torch.distributed as dist

from tfzoo.base.signals import INTERRUPTED, STOPPED

PHASES = ("reading", "forward", "backward", "the optimiser's step", "validation")
"""Of a batch. Progress in training is one number: ``batches * len(PHASES)`` + the phase's index."""
TICK = 0.25
"""Seconds between two checks of child processes."""
GRACE = 5.0
"""Seconds that a process has to end by itself once another has died: usually a collective fails
and raises.
"""
ENDING = 15.0
"""Seconds to wait until a failed process has ended."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Ends a process at once; Windows has no SIGKILL, and its SIGTERM does that."""
LOST = re.compile(
    r"gloo|NCCL|Connection (?:closed|reset|refused)|peer|Broken pipe|TCPStore|\bsocket\b",
    re.IGNORECASE,
)


class Heartbeats:
    """One record per process, in the key-value store of torch's process group: a counter, the
    progress, the last error.

    Rank 0 reads all records, any other rank that of rank 0 and its own. ``message`` is what a
    process that found a hang or a crash tells all others, ``""`` so far.
    """

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self.watched = range(world_size) if rank == 0 else (0, rank)
        self.store: Any = dist.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(hours=1),
        )
        self.count = 0
        self.records: dict[int, list[str]] = {}
        self.last_seen: dict[int, float] = {}
        self.last_progress = self.last_answer = time.monotonic()
        self.message = ""

    def wait_for_all(self) -> None:
        """Wait until each watched process has written its first record."""
        self.exchange(0, 0, {})
        self.store.wait([f"tfzoo/{rank}" for rank in self.watched], timedelta(minutes=5))
        self.exchange(0, 0, {})

    def exchange(self, progress: int, ticks: int, errors: dict[int, str]) -> None:
        """Write this process's record, read the others'. ``ticks`` counts hooks of training;
        ``errors`` are last errors by rank, and those of other processes are added.
        """
        self.count += 1
        error = errors.get(self.rank, "")
        fields = [self.count, progress, ticks, platform.node(), os.getpid(), error]
        self.store.set(f"tfzoo/{self.rank}", "\t".join(map(str, fields)))
        keys = [f"tfzoo/{rank}" for rank in self.watched if self.store.check([f"tfzoo/{rank}"])]
        values = self.store.multi_get(keys) if keys else []
        self.last_answer = now = time.monotonic()
        for key, value in zip(keys, values, strict=True):
            rank, record = int(key.rpartition("/")[2]), value.decode().split("\t")
            before = self.records.get(rank)
            if before is None or before[0] != record[0]:
                self.last_seen[rank] = now
            if before is None or before[2] != record[2]:
                self.last_progress = now
            self.records[rank] = record
            if record[5]:
                errors[rank] = record[5]
        if self.store.check(["tfzoo/message"]):
            self.message = self.store.get("tfzoo/message").decode()

    def notify(self, message: str) -> None:
        """Send a message to all processes, which end with it. Nothing is sent where the store has
        not answered for 5 seconds: the call would wait.
        """
        if time.monotonic() - self.last_answer < 5:
            self.store.set("tfzoo/message", message)

    def lost(self, timeout: float) -> list[int]:
        """Ranks without a heartbeat for ``timeout`` seconds. Rank 0 if the store, which it hosts,
        is unreachable for that long.
        """
        now = time.monotonic()
        if now - self.last_answer > timeout and self.rank:
            return [0]
        if now - self.last_answer > timeout / 2:  # this process slept, not the others
            return []
        return [
            rank
            for rank, seen in self.last_seen.items()
            if now - seen > timeout and rank != self.rank
        ]

    def stalled(self, timeout: float) -> list[int]:
        """Where no process made progress for ``timeout`` seconds: the ranks with the least
        progress, for which the others wait.
        """
        if len(self.records) < self.world_size or time.monotonic() - self.last_progress < timeout:
            return []
        progress = {rank: int(record[1]) for rank, record in self.records.items()}
        return [rank for rank, done in progress.items() if done == min(progress.values())]

    def position(self, rank: int) -> str:
        """Where a process was last: ``in batch 7, forward``."""
        batch, phase = divmod(int(self.records.get(rank, ["", "0"])[1]), len(PHASES))
        return f"in batch {batch + 1}, {PHASES[phase]}"

    def local_pids(self, ranks: Sequence[int]) -> list[int]:
        """Process ids of those of the ranks that run on this machine; not of this process."""
        found = [self.records[rank] for rank in ranks if rank in self.records and rank != self.rank]
        return [int(record[4]) for record in found if record[3] == platform.node()]


class Watchdog(L.Callback):
    """Watches the progress of all processes and the exit codes of child processes.

    A thread of each process writes heartbeats and its progress to the key-value store of torch's
    process group. Rank 0 reads them all. A process without a heartbeat for ``timeout`` seconds
    hangs; where no process makes progress for that long, the one with the least progress does, for
    the others wait for it. Then ``on_failure`` is called with a message, and this process exits at
    once: its main thread waits in a collective that never returns. The other ranks watch rank 0 in
    the same way.
    """

    def __init__(self, timeout: float, on_failure: Callable[[str], None]) -> None:
        self.timeout, self.on_failure = timeout, on_failure
        self.over = Event()
        self.children: list[Any] = []
        self.first = 0
        """The rank of the process that started the children."""
        self.progress, self.ticks = 0, 0
        self.errors: dict[int, str] = {}
        self.lost = ""

    def start(self, trainer: L.Trainer) -> None:
        """Watch the child processes that Lightning is about to start; in a child process, watch its
        parent.
        """
        self.trainer = trainer
        self.first = trainer.node_rank * trainer.num_devices
        if trainer.world_size > 1:
            Thread(
                target=self._parent if trainer.local_rank else self._children,
                daemon=True,
                name="watch",
            ).start()

    def stop(self) -> None:
        """Training is over: processes that end from now on have not failed."""
        self.over.set()

    def cause(self, error: BaseException) -> str:
        """Which process failed, where an error says that a connection to another was lost; ``""``
        for an error of this process.
        """
        if self.trainer.world_size < 2 or not LOST.search(f"{type(error).__name__} {error}"):
            return ""
        until = time.monotonic() + ENDING
        while (
            not (found := self._failed_child() or self.lost) and time.monotonic() < until
        ):  # the failed process may not have ended yet
            if not self.children and self.errors:
                break
            time.sleep(TICK)
        errors = [
            f"rank {rank} failed; its last error: {text}"
            for rank, text in sorted(self.errors.items())
        ]
        return (
            found
            or next(iter(errors), "")
            or f"another process is gone ({str(error).splitlines()[0][:120]})"
        )

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if trainer.world_size > 1 and stage == "fit" and dist.is_initialized():
            heartbeats = Heartbeats(trainer.global_rank, trainer.world_size)
            heartbeats.wait_for_all()
            for run in (self._exchange, self._judge):
                Thread(target=run, args=(heartbeats,), daemon=True, name="watchdog").start()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._reach(trainer, 0)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._reach(trainer, 1)

    def on_before_backward(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Any
    ) -> None:
        self._reach(trainer, 2)

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Any
    ) -> None:
        self._reach(trainer, 3)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._reach(trainer, 0)

    def on_validation_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._reach(trainer, 4)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._reach(trainer, 4)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        if trainer.world_size < 2:
            return  # nobody else asks why
        if isinstance(exception, Exception) and not LOST.search(
            f"{type(exception).__name__} {exception}"
        ):
            self.errors[trainer.global_rank] = (
                f"{type(exception).__name__}: {' '.join(str(exception).split())[:300]}"
            )
            time.sleep(1.5)  # until the thread has written it

    def _reach(self, trainer: L.Trainer, phase: int) -> None:
        self.ticks += 1
        done = trainer.fit_loop.epoch_loop.batch_progress.total.completed
        self.progress = done * len(PHASES) + phase

    def _exchange(self, heartbeats: Heartbeats) -> None:
        """Write and read heartbeats once a second."""
        with suppress(Exception):  # the store is gone with rank 0, which the other thread finds
            while not self.over.is_set():
                heartbeats.exchange(self.progress, self.ticks, self.errors)
                time.sleep(min(1.0, self.timeout / 10))

    def _judge(self, heartbeats: Heartbeats) -> None:
        """Find processes that hang. A thread of its own: the other one waits for a store that does
        not answer.
        """
        while not self.over.wait(min(1.0, self.timeout / 10)):
            if heartbeats.message:
                self._exit(heartbeats.message)
            if lost := heartbeats.lost(self.timeout):
                self._hung(heartbeats, lost, f"no sign of life for {self.timeout:g} seconds")
            elif not heartbeats.rank and (stalled := heartbeats.stalled(self.timeout)):
                self._hung(heartbeats, stalled, f"no progress for {self.timeout:g} seconds")

    def _hung(self, heartbeats: Heartbeats, ranks: Sequence[int], why: str) -> None:
        text = f"{named(ranks)} hung: {why}, {heartbeats.position(ranks[0])}"
        with suppress(Exception):
            heartbeats.notify(text)
        for process in heartbeats.local_pids(ranks):
            with suppress(OSError):
                os.kill(process, KILL)  # a stopped process takes no other signal
        time.sleep(0 if heartbeats.rank in (0, *ranks) else GRACE)
        self._exit(text)

    def _children(self) -> None:
        """Watch child processes in place of Lightning's own observer, which kills this process
        without a message.
        """
        while not self.over.wait(TICK):
            launcher = self.trainer.strategy.launcher
            if not self.children and getattr(launcher, "procs", None):
                theirs = launcher.procs  # type: ignore[union-attr]
                self.children, launcher.procs = list(theirs), list(theirs)  # type: ignore[union-attr]
                theirs.clear()  # the observer ends when its list is empty
            if text := self._failed_child():
                self.lost = text
                if not self.over.wait(GRACE):
                    self._exit(self._failed_child() or text)

    def _failed_child(self) -> str:
        """How the first child process that failed ended; ``""`` while none has."""
        for number, child in enumerate(self.children, self.first + 1):
            code = child.poll()
            if code not in (None, 0, STOPPED, INTERRUPTED):
                how = (
                    f"was killed by {signal.Signals(-code).name}"
                    if code < 0
                    else f"ended with exit code {code}"
                )
                return f"rank {number} {how}" + (
                    f"; its last error: {self.errors[number]}" if number in self.errors else ""
                )
        return ""

    def _parent(self) -> None:
        """Exit when the parent process has ended. torchrun and SLURM, where they are the parent,
        outlive this process.
        """
        parent = os.getppid()
        while not self.over.wait(TICK):
            if os.getppid() != parent and not self.over.wait(GRACE):
                self._exit("rank 0 is gone: killed, or ended without a word")

    def _exit(self, text: str) -> None:
        """Exit now, and kill child processes."""
        if self.over.is_set():
            return
        for child in self.children:
            with suppress(OSError):
                child.kill()
        self.on_failure(text)
        sys.stderr.flush()
        os._exit(1)


def named(ranks: Sequence[int]) -> str:
    """``rank 1``, ``rank 1, rank 2 and 6 more``"""
    return ", ".join(f"rank {one}" for one in ranks[:3]) + (
        f" and {len(ranks) - 3} more" if len(ranks) > 3 else ""
    )
