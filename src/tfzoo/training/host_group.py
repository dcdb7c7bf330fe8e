"""Processes agree on values without waiting for their devices."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class HostGroup:
    """All processes of a training, connected through their CPUs (gloo).

    NCCL moves tensors of the GPU alone: to agree through it, each process would wait until its GPU
    has finished all that was asked of it, in every step.
    """

    def __init__(self) -> None:
        self._group: Any = None

    def maximum(self, value: int) -> int:
        """The largest value of any process; all processes must call it. Where there is one process,
        its own value.
        """
        if not self._connected():
            return value
        found = torch.tensor(value)
        dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self._group)
        return int(found)

    def gathered(self, value: Any) -> list[Any]:
        """The values of all processes, by rank; all processes must call it."""
        if not self._connected():
            return [value]
        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, value, group=self._group)
        return found

    def _connected(self) -> bool:
        """Whether there are several processes, which are connected now."""
        if not dist.is_initialized() or dist.get_world_size() < 2:
            return False
        if self._group is None:
            self._group = dist.new_group(backend="gloo")
        return True
