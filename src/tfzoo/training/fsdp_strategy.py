"""The strategy ``fsdp2``: parameters, gradients and optimiser states are sharded over all processes
(FSDP2). Checkpoints are whole files, as those of other strategies: what is sharded is gathered when
one is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict
from torch.optim import Optimizer

from tfzoo.base import adapters
from tfzoo.models.fsdp import load_full_state, reshard, unshard
from tfzoo.runs import checkpoints

NAME = "fsdp2"


class Sharded(ModelParallelStrategy):
    """``ModelParallelStrategy`` with all processes along the data-parallel axis.

    During validation, test and prediction every process holds the unsharded parameters: processes
    may have unequal numbers of batches and decode for unequal numbers of steps.
    """

    def setup_environment(self) -> None:
        adapters.set_parallel_sizes(self, data=self.num_nodes * self.num_processes)
        super().setup_environment()

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load a file, written by any number of processes, into this process's shards."""
        checkpoint = checkpoints.read(self.broadcast(checkpoint_path))
        load_full_state(self._module, checkpoint.pop("state_dict"))
        for optimizer, state in zip(
            self.optimizers, checkpoint.pop("optimizer_states", []), strict=False
        ):
            named = by_name(state, optimizer, self._module)
            set_optimizer_state_dict(
                self._module, optimizer, named, options=StateDictOptions(full_state_dict=True)
            )
        return checkpoint

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


def by_name(state: Mapping[str, Any], optimizer: Optimizer, module: nn.Module) -> dict[str, Any]:
    """An optimiser's state dict with parameters named; in a plain one they have numbers."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    own = chain.from_iterable(group["params"] for group in optimizer.param_groups)
    numbers = chain.from_iterable(group["params"] for group in state["param_groups"])
    named = {number: names[id(one)] for number, one in zip(numbers, own, strict=True)}
    groups = [
        {**group, "params": [named[number] for number in group["params"]]}
        for group in state["param_groups"]
    ]
    return {
        "state": {named[number]: value for number, value in state["state"].items()},
        "param_groups": groups,
    }


def register() -> None:
    """Register it, so that ``trainer.strategy: fsdp2`` finds it."""
    StrategyRegistry.register(
        NAME,
        Sharded,
        description="FSDP2 over all processes",
        override=True,
        save_distributed_checkpoint=False,
    )
