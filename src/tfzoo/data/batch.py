"""What a batch of every task can do: its tensors move together. What makes batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Self, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset


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


def row_lengths(tokens: Tensor, lengths: Tensor | None) -> list[int]:
    """The number of tokens of each row of ``(b n)``; ``lengths`` ``(b)`` is None where no row is
    padded.
    """
    b, n = tokens.shape
    return [n] * b if lengths is None else lengths.tolist()


def first_of(rows: int, values: Tensor | None) -> Tensor | None:
    """The first ``rows`` rows, if there are any."""
    return None if values is None else values[:rows]


B = TypeVar("B", bound=Batch, covariant=True)


class BatchDataset(Dataset[B]):
    """A split, indexed by batches: ``dataset[[4, 7, 1]]`` is a batch of three rows. The
    ``collate_fn`` of its DataLoader is :func:`tfzoo.data.parallel_batch.as_is`.
    """

    def __getitem__(self, batch: Sequence[int]) -> B:
        raise NotImplementedError

    def __getitems__(self, batch: Sequence[int]) -> B:
        return self[batch]
