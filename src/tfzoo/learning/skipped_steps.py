"""Optimiser steps that are skipped because their loss or gradients are not finite."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tfzoo.base.host_copies import HostCopy


def skip_unless(finite: Tensor, optimizer: Any) -> None:
    """Make the next ``optimizer.step()`` leave parameters and optimiser state unchanged if
    ``finite``, a boolean tensor ``()``, is False.

    PyTorch's fused optimisers read the attribute ``found_inf`` on the device, as they do for
    ``torch.amp.GradScaler``. For any other optimiser the host waits for the value and sets the
    gradients to None; an optimiser ignores parameters whose gradient is None.
    """
    if optimizer.defaults.get("fused"):
        optimizer.found_inf = finite.logical_not().to(torch.float32)
    elif not bool(finite):
        optimizer.zero_grad(set_to_none=True)


class SkippedSteps:
    """Counts skipped steps on the device.

    :meth:`add` starts an asynchronous copy of the count to the host. :meth:`last_in_a_row`, called
    one step later, reads this copy and therefore does not stall the device.
    """

    def __init__(self) -> None:
        self.total: Tensor | int = 0
        """Steps skipped so far."""
        self.in_a_row: Tensor | int = 0
        """Steps skipped since the last step that was taken or tolerated."""
        self._copy = HostCopy(torch.zeros((), dtype=torch.int64))

    def add(self, skipped: Tensor, tolerated: bool = False) -> None:
        """Count a step; ``skipped`` is a boolean tensor ``()``. A ``tolerated`` step sets the
        number of skipped steps in a row to 0, whether it was skipped or not.
        """
        self.total = self.total + skipped.long()
        self.in_a_row = (self.in_a_row + 1) * skipped.long() * (not tolerated)
        self._copy = HostCopy(self.in_a_row)

    def last_in_a_row(self) -> int:
        """The number of skipped steps in a row at the last :meth:`add`."""
        return int(self._copy.read())
