"""The strategy ``fsdp2``: parameters, gradients and optimiser states are sharded over all processes
(FSDP2). Checkpoints are whole files, as those of other strategies: what is sharded is gathered when
one is written.
"""

from __future__ import annotations

import lightning.pytorch as L
import torch
from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry

from tfzoo.base import adapters
from tfzoo.models.fsdp import reshard, unshard

NAME = "fsdp2"


class Sharded(ModelParallelStrategy):
    """``ModelParallelStrategy`` with all processes along the data-parallel axis.

    During validation, test and prediction every process holds the unsharded parameters: processes
    may have unequal numbers of batches and decode for unequal numbers of steps.
    """

    def setup_environment(self) -> None:
        adapters.set_parallel_sizes(self, data=self.num_nodes * self.num_processes)
        super().setup_environment()

    def on_validation_start(self) -> None:
        # what is gathered here may be trained on later
        with torch.inference_mode(False), torch.no_grad():
            unshard(self._module)

    def on_validation_end(self) -> None:
        reshard(self._module)

    on_test_start = on_predict_start = on_validation_start
    on_test_end = on_predict_end = on_validation_end

    @property
    def _module(self) -> L.LightningModule:
        if self.lightning_module is None:
            raise RuntimeError("the strategy has no module yet")
        return self.lightning_module


def register() -> None:
    """Register it, so that ``trainer.strategy: fsdp2`` finds it."""
    StrategyRegistry.register(
        NAME,
        Sharded,
        description="FSDP2 over all processes",
        override=True,
        save_distributed_checkpoint=False,
    )
