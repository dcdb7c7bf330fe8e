"""Heartbeats: what the processes of one training know of each other."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

PHASES = ("reading", "forward", "backward", "the optimiser's step", "validation")
"""Of a batch. Progress in training is one number: ``batches * len(PHASES)`` + the phase's index."""


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
