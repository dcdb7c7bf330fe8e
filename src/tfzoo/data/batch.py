"""What a batch of every task can do: its tensors move together."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Self

import torch
from torch import Tensor


class Batch:
    """Tensors, and what belongs to them, as the attributes of one object."""

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same batch in pinned memory, which is copied to a GPU asynchronously."""
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(changed, name, change(value))
        return changed
