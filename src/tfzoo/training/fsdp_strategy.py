"""The strategy ``fsdp2``: parameters, gradients and optimiser states are sharded over all processes
(FSDP2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from tfzoo.base import adapters
from tfzoo.errors import BadRun
from tfzoo.models.fsdp import load_full_state, reshard, unshard
from tfzoo.runs import checkpoints, sharded_files
from tfzoo.training.checkpoint_io import AtomicCheckpointIO

NAME = "fsdp2"


class Sharded(ModelParallelStrategy):
    """``ModelParallelStrategy`` with all processes along the data-parallel axis, and checkpoints
    that are renamed to their final name when they are complete.

    During validation, test and prediction every process holds the unsharded parameters: processes
    may have unequal numbers of batches and decode for unequal numbers of steps.
    """

    def setup_environment(self) -> None:
        adapters.set_parallel_sizes(self, data=self.num_nodes * self.num_processes)
        super().setup_environment()

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any = None
    ) -> None:
        """Write the folder under a temporary name; rename it when the files of all processes are
        on the disk.

        Where one process cannot write, or its shard is not finite, the checkpoint is dropped, and
        reported as for a file.
        """
        path = Path(self.broadcast(filepath))
        temporary = sharded_files.temporary_name(path)
        if self.is_global_zero:
            sharded_files.remove(temporary)
        name = checkpoints.not_finite(local(checkpoint))
        why = self._any(f"{name} is not finite" if name else None)
        why = why or self._any(
            attempt(super().save_checkpoint, checkpoint, temporary, storage_options)
        )
        why = why or self._any(
            attempt(sharded_files.rename, temporary, path) if self.is_global_zero else None
        )
        if not isinstance(self.checkpoint_io, AtomicCheckpointIO):
            if why:
                raise BadRun(f"cannot write {path}: {why}")
        elif self.is_global_zero:
            self.checkpoint_io.report(path, why)

    def _any(self, why: str | None) -> str | None:
        """The first reason of any process; all processes must call it."""
        reasons: list[str | None] = [None] * self.world_size
        torch.distributed.all_gather_object(reasons, why)
        return next((one for one in reasons if one), None)

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load a folder or a file, written by any number of processes, into this process's shards.
        One process checks a folder first.
        """
        path = Path(self.broadcast(checkpoint_path))
        if path.is_dir():
            wrong = self.broadcast(damage(path) if self.is_global_zero else None)
            if wrong is not None:
                raise wrong
            return super().load_checkpoint(path, weights_only=True)
        checkpoint = checkpoints.read(path)
        load_full_state(self._module, checkpoint.pop("state_dict"))
        for optimizer, state in zip(
            self.optimizers, checkpoint.pop("optimizer_states", []), strict=False
        ):
            named = by_name(state, optimizer, self._module)
            set_optimizer_state_dict(
                self._module, optimizer, named, options=StateDictOptions(full_state_dict=True)
            )
        return checkpoint

    def remove_checkpoint(self, filepath: str | Path) -> None:
        if self.is_global_zero:
            self.checkpoint_io.remove_checkpoint(filepath)

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


def attempt(write: Callable[..., None], *given: Any) -> str | None:
    """Write; return the file system's error where it fails."""
    try:
        write(*given)
    except CheckpointException as error:  # of any process, in all
        return next((str(failure[0]) for failure in error.failures.values()), str(error))
    except (OSError, RuntimeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def local(values: Any) -> Any:
    """Nested values with each tensor replaced by this process's shard."""
    if isinstance(values, DTensor):
        return values.to_local()
    if isinstance(values, Mapping):
        return {key: local(value) for key, value in values.items()}
    return [local(value) for value in values] if isinstance(values, list) else values


def damage(path: Path) -> BadRun | None:
    """The error that reading a sharded checkpoint would raise, if any."""
    try:
        sharded_files.check(path, sharded_files.read_index(path))
    except BadRun as error:
        return error
    return None


def by_name(state: Mapping[str, Any], optimizer: Optimizer, module: nn.Module) -> dict[str, Any]:
    """An optimiser's state dict with parameters named; in a plain one they are numbered through all
    groups.
    """
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    order = [
        names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]
    ]
    groups = [
        {**group, "params": [order[number] for number in group["params"]]}
        for group in state["param_groups"]
    ]
    return {
        "state": {order[number]: value for number, value in state["state"].items()},
        "param_groups": groups,
    }


def register() -> None:
    """Register it, so that ``trainer.strategy: fsdp2`` finds it."""
    StrategyRegistry.register(NAME, Sharded, description="FSDP2 over all processes", override=True)
