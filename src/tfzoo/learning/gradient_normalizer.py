"""Gradients of the mean loss over all micro-batches and processes of an optimiser step, which is
skipped where they are not finite.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from tfzoo.base import adapters
from tfzoo.base.host_copies import HostCopy
from tfzoo.models.fsdp import full_tensor


class GradientNormalizer:
    """Adds up losses and counts over the micro-batches of a step, then divides the gradients of the
    total loss by the total count, all on the device.
    """

    def __init__(self) -> None:
        self.loss = self.norm = torch.zeros(())
        """Mean loss of the last step, and the norm of its gradients before clipping."""
        self.reset()

    def reset(self) -> None:
        """Set the sums of losses and counts to zero, before the first micro-batch of a step."""
        self.total: Tensor | None = None
        self.count: Tensor | float = 0.0

    def add(self, loss: Tensor, count: Tensor | float) -> None:
        """Add the summed loss of a micro-batch, and the number to divide it by."""
        loss = loss.detach().to(torch.promote_types(loss.dtype, torch.float32))
        self.total = loss if self.total is None else self.total + loss
        self.count = self.count + count

    def normalize_(
        self, parameters: Sequence[nn.Parameter], world_size: int, micro_batches: int
    ) -> Tensor:
        """Scale the gradients in place to those of the mean loss. Every process must call it. It
        takes one all-reduce of three numbers, and under FSDP another one for the norm.

        The gradients are multiplied by ``world_size * micro_batches / count``, because strategies
        average gradients over processes and Lightning divides each loss by ``micro_batches``. If
        :meth:`add` was not called, they stay as they are.

        Returns:
            Whether loss and gradients of all processes are finite, a boolean tensor ``()``. If not,
            the gradients are left as they are.
        """
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = full_tensor(nn.utils.get_total_norm(gradients))
        norm = norm.to(torch.promote_types(norm.dtype, torch.float32))
        total = torch.zeros_like(norm) if self.total is None else self.total.to(norm)
        # full_like fills in the number on the device; a copy from the host would synchronise.
        count = self.count if isinstance(self.count, Tensor) else torch.full_like(norm, self.count)
        sums = torch.stack([total, count.to(norm), norm])
        if world_size > 1:
            distributed.all_reduce(sums)
        finite = sums.isfinite().all()
        # MPS has no float64
        exact = torch.float32 if sums.device.type == "mps" else torch.float64
        loss, count_sum, norms = sums.to(exact).unbind()
        if self.total is None:
            scale = torch.ones_like(loss)
        else:
            scale = torch.where(count_sum > 0, world_size * micro_batches / count_sum, 0.0)
        self.loss = torch.where(count_sum > 0, loss / count_sum, loss).to(norm)
        self.norm = (norms / world_size * scale).to(norm)
        if gradients and self.total is not None:
            adapters.scale_in_place(gradients, torch.where(finite, scale, 1.0).to(norm))
        return finite


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
    """Counts skipped steps on the device. :meth:`add` starts a copy of the count to the host, which
    :meth:`last_in_a_row` reads one step later, so that nothing waits for the device.
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
        self.total = self.total + skipped
        self.in_a_row = (self.in_a_row + 1) * skipped * (not tolerated)
        self._copy = HostCopy(self.in_a_row)

    def last_in_a_row(self) -> int:
        """The number of skipped steps in a row at the last :meth:`add`."""
        return int(self._copy.read())
