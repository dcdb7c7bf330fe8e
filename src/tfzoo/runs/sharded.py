"""FSDP2 as a strategy with a short name: parameters, gradients and optimiser states spread over all processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry

from tfzoo.errors import BadRun
from tfzoo.models.shard import gather, scatter
from tfzoo.runs import shards

NAME = "fsdp2"


class Sharded(ModelParallelStrategy):
    """Lightning's strategy, with all processes along one axis, and checkpoints that are there whole or not at all.

    While the model is scored it is whole in every process: processes may have unequal numbers of batches, and decode as long as they need.
    """

    def setup_environment(self) -> None:
        self._tensor_parallel_size = 1
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any = None) -> None:
        """Write the folder under a temporary name; it gets its own when the last file of the last process is on the disk."""
        path = Path(self.broadcast(filepath))
        draft = shards.draft(path)
        if self.is_global_zero:
            shards.remove(draft)
        self.barrier()
        super().save_checkpoint(checkpoint, draft, storage_options)
        self.barrier()
        if self.is_global_zero:
            shards.place(draft, path)
        self.barrier()

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        """Share out what a folder or a file holds, written by any number of processes; the first process checks it before."""
        path = Path(self.broadcast(checkpoint_path))
        wrong: BadRun | None = None
        if self.is_global_zero and path.is_dir():
            try:
                shards.check(path, shards.read_index(path))
            except BadRun as error:
                wrong = error
        if (wrong := self.broadcast(wrong)) is not None:
            raise wrong
        return super().load_checkpoint(path, weights_only=True)

    def remove_checkpoint(self, filepath: str | Path) -> None:
        if self.is_global_zero:
            shards.remove(Path(filepath))

    def on_validation_start(self) -> None:
        self._gather()

    def on_validation_end(self) -> None:
        self._scatter()

    def on_test_start(self) -> None:
        self._gather()

    def on_test_end(self) -> None:
        self._scatter()

    def on_predict_start(self) -> None:
        self._gather()

    def on_predict_end(self) -> None:
        self._scatter()

    def _gather(self) -> None:
        with torch.inference_mode(False), torch.no_grad():  # what is gathered here may be trained on later
            gather(self._module)

    def _scatter(self) -> None:
        scatter(self._module)

    @property
    def _module(self) -> L.LightningModule:
        if self.lightning_module is None:
            raise RuntimeError("the strategy has no module yet")
        return self.lightning_module


def register() -> None:
    """Let ``trainer.strategy`` name it."""
    StrategyRegistry.register(NAME, Sharded, description="FSDP2 over all processes", override=True)
