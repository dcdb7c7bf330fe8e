"""Processes that torchrun or srun started: the Trainer is to take them all, or each would train
alone, in the same folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as L
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from tfzoo.errors import BadRecipe


def trainer(arguments: Mapping[str, Any]) -> L.Trainer:
    """The Trainer of these arguments; where they leave devices or machines open, of as many as a
    launcher has started.

    Raises:
        BadRecipe: they ask for more or fewer than were started.
    """
    name, devices, nodes = started()
    if not name:
        return L.Trainer(**arguments)
    found = {"devices": devices, "num_nodes": nodes} if devices * nodes > 1 else {}
    left_open = {"devices": "auto", "num_nodes": 1}
    made = L.Trainer(
        **{
            **arguments,
            **{key: value for key, value in found.items() if arguments[key] == left_open[key]},
        }
    )
    if (made.num_devices, made.num_nodes) != (devices, nodes):
        raise BadRecipe(
            f"{name} started {devices} on each of {nodes} machines, but the recipe asks for trainer.devices {made.num_devices} "
            f"and trainer.num_nodes {made.num_nodes}: start as many processes, or leave both options out"
        )
    return made


def started() -> tuple[str, int, int]:
    """What started this process, how often on each machine, on how many; no name where the Trainer
    is to start processes itself.
    """
    if TorchElasticEnvironment.detect():
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        return "torchrun", here, int(os.environ["WORLD_SIZE"]) // here
    if SLURMEnvironment.detect():
        nodes = int(os.environ.get("SLURM_NNODES", "1"))
        return "srun", int(os.environ["SLURM_NTASKS"]) // nodes, nodes
    return "", 1, 1
