"""Optimiser steps that are skipped because their loss or gradients are not finite."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def skip_unless(finite: Tensor, optimizer: Any) -> None:
    """Let the next ``step()`` of an optimiser change nothing unless ``finite`` ``()`` is True:
    neither parameters nor the optimiser's state.

    PyTorch's fused optimisers read the attribute ``found_inf`` and decide on the device; this is
    how ``torch.amp.GradScaler`` skips a step. For any other optimiser the host waits for the value
    and drops the gradients: parameters without a gradient are left alone.
    """
    if optimizer.defaults.get("fused"):
        optimizer.found_inf = finite.logical_not().to(torch.float32)
    elif not bool(finite):
        optimizer.zero_grad(set_to_none=True)


class SkippedSteps:
    """Counts skipped steps on the device.

    The host learns of a step one step later: :meth:`last_in_a_row` returns the value of the last
    :meth:`add`, whose copy to the host began then and is complete by now.
    """

    def __init__(self) -> None:
        self.total: Tensor | int = 0
        """Steps skipped so far."""
        self.in_a_row: Tensor | int = 0
        """Steps skipped since the last one that was taken."""
        self._copy: Tensor = torch.zeros((), dtype=torch.int64)
        self._copied: torch.cuda.Event | None = None

    def add(self, skipped: Tensor, tolerated: bool = False) -> None:
        """Count a step: ``skipped`` ``()``. A ``tolerated`` one does not count as in a row."""
        self.total = self.total + skipped.long()
        self.in_a_row = (self.in_a_row + 1) * skipped.long() * (not tolerated)
        # To pinned memory, without waiting; on a CPU it is the same tensor.
        self._copy = self.in_a_row.to("cpu", non_blocking=True)
        if skipped.is_cuda:
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's is untyped
            self._copied.record()

    def last_in_a_row(self) -> int:
        """How many steps in a row were skipped, as of the last :meth:`add`."""
        if self._copied is not None:
            self._copied.synchronize()
        return int(self._copy)
