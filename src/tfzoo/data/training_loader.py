"""The batches that training takes, which go on where a checkpoint was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader

from tfzoo.data.length_bucketed_sampler import LengthBucketedSampler
from tfzoo.errors import BadRun


class TrainingLoader(DataLoader[Any]):
    """The training batches of one process. Each iteration is an epoch, by default the one that a
    Trainer sets.

    Lightning keeps :meth:`state_dict` in its checkpoints. After :meth:`load_state_dict` the next
    batch is the one after those that were taken before, and the loader counts epochs itself, since
    Lightning takes the end of a training for the end of an epoch.

    Args:
        limit: batches that a Trainer takes of each epoch.

    Raises:
        BadRun: in ``load_state_dict``, if the order is that of another seed.
    """

    def __init__(
        self,
        dataset: Any,
        order: LengthBucketedSampler,
        workers: int,
        limit: int | float | None = None,
    ) -> None:
        super().__init__(
            dataset,
            batch_size=None,
            sampler=order,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=torch.cuda.is_available(),
        )
        self.order = order
        self.per_epoch = batches_per_epoch(len(order), limit)
        self.done = 0
        """Batches of this process that were taken, of all epochs."""
        self.resumed = False

    def state_dict(self) -> dict[str, Any]:
        return {
            "batches": self.done,
            "processes": self.order.world_size,
            "seed": self.order.seed,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["seed"] != self.order.seed:
            raise BadRun(
                f"the checkpoint's batches are in the order of data.seed {state['seed']}, not "
                f"{self.order.seed}"
            )
        self.done = state["batches"] * state["processes"] // self.order.world_size
        self.resumed = True

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # an iterator, if not torch's
        # A generator begins with the first batch: a Trainer sets the epoch after it calls iter().
        if not self.resumed:
            self.done = self.order.epoch * self.per_epoch
        epoch, begun = divmod(self.done, self.per_epoch)
        self.order.set_epoch(epoch, begun)
        for batch in islice(super().__iter__(), self.per_epoch - begun):
            self.done += 1
            yield batch


def batches_per_epoch(batches: int, limit: int | float | None) -> int:
    """The batches of an epoch that a Trainer takes. ``limit`` is its ``limit_train_batches``: an
    int is a number of batches, a float a fraction of them.
    """
    if limit is None:
        return batches
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)
