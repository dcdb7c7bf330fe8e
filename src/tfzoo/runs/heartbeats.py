"""What the processes of one training know of each other."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

PHASES = ("reading", "forward", "backward", "the optimiser's step", "validation")
"""Of a batch: a place in training is ``batches * len(PHASES)`` and the phase's number."""


class Heartbeats:
    """A line for each process in the store that the process group has anyway: its place, its
    progress, its last error.
    """

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.seen = range(world) if rank == 0 else (0, rank)
        self.store: Any = dist.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(hours=1),
        )
        self.beat = 0
        self.lines: dict[int, list[str]] = {}
        self.alive: dict[int, float] = {}
        self.progress = self.answered = time.monotonic()
        self.verdict = ""

    def meet(self) -> None:
        """Wait until those that this one looks at have told their line once, so that each is known
        before anything can happen.
        """
        self.exchange(0, 0, {})
        self.store.wait([f"tfzoo/{one}" for one in self.seen], timedelta(minutes=5))
        self.exchange(0, 0, {})

    def exchange(self, place: int, ticks: int, errors: dict[int, str]) -> None:
        """Tell the own line, read the others'."""
        self.beat += 1
        error = errors.get(self.rank, "")
        self.store.set(
            f"tfzoo/{self.rank}",
            "\t".join(
                [str(self.beat), str(place), str(ticks), self._machine(), str(os.getpid()), error]
            ),
        )
        keys = [f"tfzoo/{one}" for one in self.seen if self.store.check([f"tfzoo/{one}"])]
        found = [line.decode().split("\t") for line in (self.store.multi_get(keys) if keys else [])]
        self.answered = now = time.monotonic()
        for key, line in zip(keys, found, strict=True):
            other = int(key.rpartition("/")[2])
            before = self.lines.get(other)
            if before is None or before[0] != line[0]:
                self.alive[other] = now
            if before is None or before[2] != line[2]:
                self.progress = now
            self.lines[other] = line
            if line[5]:
                errors[other] = line[5]
        if self.store.check(["tfzoo/verdict"]):
            self.verdict = self.store.get("tfzoo/verdict").decode()

    def tell(self, verdict: str) -> None:
        """Let all others end too."""
        if time.monotonic() - self.answered < 5:
            self.store.set("tfzoo/verdict", verdict)

    def silent(self, timeout: float) -> list[int]:
        """Processes without a sign of life for so long; 0 where the store does not answer, which
        lives with it.
        """
        now = time.monotonic()
        if now - self.answered > timeout and self.rank:
            return [0]
        if now - self.answered > timeout / 2:  # it was ourselves who slept
            return []
        return [
            one for one, last in self.alive.items() if now - last > timeout and one != self.rank
        ]

    def behind(self, timeout: float) -> list[int]:
        """Where no process made progress for so long, those that are furthest behind."""
        if len(self.lines) < self.world or time.monotonic() - self.progress < timeout:
            return []
        places = {one: int(line[1]) for one, line in self.lines.items()}
        return [one for one, place in places.items() if place == min(places.values())]

    def where(self, rank: int) -> str:
        """``in batch 7, forward``"""
        batch, phase = divmod(int(self.lines.get(rank, ["", "0"])[1]), len(PHASES))
        return f"in batch {batch + 1}, {PHASES[phase]}"

    def here(self, ranks: Sequence[int]) -> list[int]:
        """The process numbers of these, as far as they run on this machine."""
        lines = [self.lines[one] for one in ranks if one in self.lines and one != self.rank]
        return [int(line[4]) for line in lines if line[3] == self._machine()]

    def _machine(self) -> str:
        return platform.node()
