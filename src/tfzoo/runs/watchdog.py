"""Training on several processes ends when one of them dies or hangs, and says which."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import lightning.pytorch as L
import torch.distributed as dist

from tfzoo.runs.heartbeats import PHASES, Heartbeats
from tfzoo.runs.signals import INTERRUPTED, STOPPED

TICK = 0.25
"""Seconds between two looks at the processes that this one started."""
GRACE = 5.0
"""Seconds in which a process that has lost another may end by itself, as it does where its
collective fails.
"""
ENDING = 15.0
"""Seconds in which a process that failed ends, once the others have noticed."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Ends a process at once; Windows has no SIGKILL, and its SIGTERM does that."""
LOST = re.compile(
    r"gloo|NCCL|Connection (?:closed|reset|refused)|peer|Broken pipe|TCPStore|\bsocket\b",
    re.IGNORECASE,
)


class Watchdog(L.Callback):
    """Knows of every process how far it came, and of those that this one started how they ended.

    Each process writes a sign of life and its place in training into the store that torch's process
    group has anyway, from a thread of
    its own. Process 0 looks at all of them: one without a sign of life for ``timeout`` seconds
    hangs; where none makes progress for that long, the one that is furthest behind does, for the
    others wait for it. Then ``give_up`` is told, and this process ends at once: its main thread
    waits in a collective that never returns. The other processes look at process 0 in the same way.
    """

    def __init__(self, timeout: float, give_up: Callable[[str], None]) -> None:
        self.timeout, self.give_up = timeout, give_up
        self.over = Event()
        self.children: list[Any] = []
        self.first = 0
        """The rank of the process that started the children."""
        self.place, self.ticks = 0, 0
        self.errors: dict[int, str] = {}
        self.lost = ""

    def begin(self, trainer: L.Trainer) -> None:
        """Look after the processes that Lightning is about to start, or, in one of them, after the
        one that started it.
        """
        self.trainer = trainer
        self.first = trainer.node_rank * trainer.num_devices
        if trainer.world_size > 1:
            Thread(
                target=self._parent if trainer.local_rank else self._children,
                daemon=True,
                name="watch",
            ).start()

    def end(self) -> None:
        """Training is over: how processes end from now on is nobody's fault."""
        self.over.set()

    def blame(self, error: BaseException) -> str:
        """Which process an error comes from, where it says that another was lost; ``""`` for an
        error of our own.
        """
        if self.trainer.world_size < 2 or not LOST.search(f"{type(error).__name__} {error}"):
            return ""
        until = time.monotonic() + ENDING
        while (
            not (found := self._dead() or self.lost) and time.monotonic() < until
        ):  # the process may not quite have ended
            if not self.children and self.errors:
                break
            time.sleep(TICK)
        told = [
            f"rank {one} failed; its last error: {text}"
            for one, text in sorted(self.errors.items())
        ]
        return (
            found
            or next(iter(told), "")
            or f"another process is gone ({str(error).splitlines()[0][:120]})"
        )

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if trainer.world_size > 1 and stage == "fit" and dist.is_initialized():
            ring = Heartbeats(trainer.global_rank, trainer.world_size)
            ring.meet()
            Thread(target=self._watch, args=(ring,), daemon=True, name="watch").start()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._at(trainer, 0)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._at(trainer, 1)

    def on_before_backward(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Any
    ) -> None:
        self._at(trainer, 2)

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Any
    ) -> None:
        self._at(trainer, 3)

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._at(trainer, 0)

    def on_validation_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._at(trainer, 4)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._at(trainer, 4)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        if isinstance(exception, Exception) and not LOST.search(
            f"{type(exception).__name__} {exception}"
        ):
            self.errors[trainer.global_rank] = (
                f"{type(exception).__name__}: {' '.join(str(exception).split())[:300]}"
            )
            time.sleep(1.5)  # until the thread has told it

    def _at(self, trainer: L.Trainer, phase: int) -> None:
        self.ticks += 1
        done = trainer.fit_loop.epoch_loop.batch_progress.total.completed
        self.place = done * len(PHASES) + phase

    def _watch(self, ring: Heartbeats) -> None:
        """Tell and look once a second. That a store does not answer is seen by a second thread, for
        the first then waits for it.
        """
        Thread(target=self._judge, args=(ring,), daemon=True, name="watch").start()
        with suppress(Exception):  # the store is gone: so is process 0, which the other thread sees
            while not self.over.is_set():
                ring.exchange(self.place, self.ticks, self.errors)
                time.sleep(min(1.0, self.timeout / 10))

    def _judge(self, ring: Heartbeats) -> None:
        while not self.over.wait(min(1.0, self.timeout / 10)):
            if ring.verdict:
                self._leave(ring.verdict)
            if found := ring.silent(self.timeout):
                self._hung(ring, found, f"no sign of life for {self.timeout:g} seconds")
            elif not ring.rank and (behind := ring.behind(self.timeout)):
                self._hung(ring, behind, f"no progress for {self.timeout:g} seconds")

    def _hung(self, ring: Heartbeats, ranks: Sequence[int], why: str) -> None:
        text = f"{named(ranks)} hung: {why}, {ring.where(ranks[0])}"
        with suppress(Exception):
            ring.tell(text)
        for process in ring.here(ranks):
            with suppress(OSError):
                os.kill(process, KILL)  # a stopped process takes no other signal
        time.sleep(0 if ring.rank in (0, *ranks) else GRACE)
        self._leave(text)

    def _children(self) -> None:
        """See how the processes end that Lightning starts, in place of Lightning's own observer,
        which kills this one without a word.
        """
        while not self.over.wait(TICK):
            launcher = self.trainer.strategy.launcher
            if not self.children and getattr(launcher, "procs", None):
                theirs = launcher.procs  # type: ignore[union-attr]
                self.children, launcher.procs = list(theirs), list(theirs)  # type: ignore[union-attr]
                theirs.clear()  # the observer's list: with none to observe it ends
            if text := self._dead():
                self.lost = text
                if not self.over.wait(GRACE):
                    self._leave(self._dead() or text)

    def _dead(self) -> str:
        """The first child that ended as none should."""
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
        """End with the process that started this one; torchrun and SLURM do so themselves, and it
        is alive then.
        """
        parent = os.getppid()
        while not self.over.wait(TICK):
            if os.getppid() != parent and not self.over.wait(GRACE):
                self._leave("rank 0 is gone: killed, or ended without a word")

    def _leave(self, text: str) -> None:
        """End this process now, with the processes that it started."""
        if self.over.is_set():
            return
        for child in self.children:
            with suppress(OSError):
                child.kill()
        self.give_up(text)
        sys.stderr.flush()
        os._exit(1)


def named(ranks: Sequence[int]) -> str:
    """``rank 1``, ``rank 1, rank 2 and 6 more``"""
    return ", ".join(f"rank {one}" for one in ranks[:3]) + (
        f" and {len(ranks) - 3} more" if len(ranks) > 3 else ""
    )
