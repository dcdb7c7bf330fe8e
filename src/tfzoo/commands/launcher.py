"""Processes that torchrun or srun started: the Trainer is to take them all, or each would train alone, in the same folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as L
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from tfzoo.errors import BadRecipe


@dataclass(frozen=True)
class Launcher:
    """What started this process, on so many machines, so many times on each."""

    name: str
    devices: int
    nodes: int

    def fill(self, arguments: dict[str, Any]) -> None:
        """Where a recipe leaves the number of devices or of machines open, take what was started."""
        if self.devices * self.nodes > 1:
            arguments["devices"] = self.devices if arguments["devices"] == "auto" else arguments["devices"]
            arguments["num_nodes"] = self.nodes if arguments["num_nodes"] == 1 else arguments["num_nodes"]

    def check(self, trainer: L.Trainer) -> None:
        """Refuse a Trainer of another number of processes.

        Raises:
            BadRecipe: it has more or fewer than were started.
        """
        if (trainer.num_devices, trainer.num_nodes) != (self.devices, self.nodes):
            raise BadRecipe(
                f"{self.name} started {self.devices} on each of {self.nodes} machines, but the recipe asks for trainer.devices "
                f"{trainer.num_devices} and trainer.num_nodes {trainer.num_nodes}: start as many processes, or leave both options out"
            )


def launcher() -> Launcher | None:
    """None where the Trainer is to start processes itself."""
    if TorchElasticEnvironment.detect():
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        return Launcher("torchrun", here, int(os.environ["WORLD_SIZE"]) // here)
    if SLURMEnvironment.detect():
        nodes = int(os.environ.get("SLURM_NNODES", "1"))
        return Launcher("srun", int(os.environ["SLURM_NTASKS"]) // nodes, nodes)
    return None
