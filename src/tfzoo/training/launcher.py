"""Processes that torchrun or srun started: the Trainer is to take them all, or each would train
alone, in the same folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import lightning.pytorch as L
import torch
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from tfzoo.errors import BadRecipe

LAUNCHED = {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE", "RANK"}


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


@contextmanager
def launching(args: Sequence[str]) -> Iterator[None]:
    """Lightning starts further processes with ``sys.argv``: let that be this command, however it
    was called.

    What it leaves behind for processes that it started is taken back, so that the next command of
    this process starts alone.
    """
    main = sys.modules["__main__"]
    before, variables = (sys.argv, main.__spec__), dict(os.environ)
    grouped = torch.distributed.is_initialized()
    sys.argv, main.__spec__ = ["tfzoo", *args], find_spec("tfzoo.__main__")
    try:
        yield
        if torch.distributed.is_initialized() and not grouped:
            torch.distributed.destroy_process_group()
    finally:
        sys.argv, main.__spec__ = before
        for name in LAUNCHED & (os.environ.keys() - variables.keys()):
            del os.environ[name]
