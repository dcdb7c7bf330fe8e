"""Use all processes that torchrun or srun started. Otherwise each would train alone, in the same
folder.
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
from lightning.pytorch.accelerators import CPUAccelerator

from tfzoo.errors import BadRecipe
from tfzoo.runs import memory

ENVIRONMENT = {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE", "RANK"}


def trainer(arguments: Mapping[str, Any]) -> L.Trainer:
    """Return the Trainer of these arguments. If they do not set the number of devices or machines,
    it uses those that the launcher has started.

    Raises:
        BadRecipe: the arguments ask for other numbers than were started.
    """
    name, devices, nodes = detect_launcher()
    if not name:
        made = L.Trainer(**arguments)
        if isinstance(made.accelerator, CPUAccelerator):
            memory.check_processes(made.num_devices)
        return made
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
            f"{name} started {devices} on each of {nodes} machines, but the recipe asks for "
            f"trainer.devices {made.num_devices} and trainer.num_nodes {made.num_nodes}: "
            "start as many processes, or leave both options out"
        )
    return made


def detect_launcher() -> tuple[str, int, int]:
    """Return the launcher, the number of processes per machine and the number of machines. The name
    is ``""`` if no launcher was used: the Trainer then starts processes itself.
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
    """Context in which Lightning can start further processes of this command.

    Lightning starts them with ``sys.argv``, which is set to the command, also if it was called from
    Python. Afterwards the process group and the environment variables that Lightning has set are
    removed, so that the next command in this process starts with one process.
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
        for name in ENVIRONMENT & (os.environ.keys() - variables.keys()):
            del os.environ[name]
