"""Lightning's Trainer from a resolved configuration: the processes that it runs on, how it writes
and reads checkpoints, the callback that saves the best one, and the strategy ``fsdp2``.

All processes that torchrun or srun started are used: otherwise each would train alone, in the same
folder.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import callbacks as lightning_callbacks
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry

from tfzoo.base import adapters
from tfzoo.base.files import replacing
from tfzoo.base.values import arguments
from tfzoo.config.config import load, make
from tfzoo.errors import BadRecipe
from tfzoo.models.fsdp import reshard, unshard
from tfzoo.runs import checkpoints

DISABLED_BY = {
    "enable_progress_bar": lightning_callbacks.ProgressBar,
    "enable_checkpointing": lightning_callbacks.ModelCheckpoint,
}
"""The arguments of the Trainer that remove tfzoo's own callbacks of a class if they are False."""
LAST_CHECKPOINT_KEYS = {"every_n_train_steps", "train_time_interval"}
"""Keys of the section ``checkpoint`` that say when the last checkpoint is written."""


class BestCheckpoint(ModelCheckpoint):
    """Of checkpoints with equal scores the newest is kept."""

    def check_monitor_top_k(self, trainer: L.Trainer, current: torch.Tensor | None = None) -> bool:
        kept = self.best_k_models.get(self.kth_best_model_path)
        is_tie = current is not None and kept is not None and bool(current == kept)
        # all processes must agree
        return trainer.strategy.reduce_boolean_decision(is_tie) or super().check_monitor_top_k(
            trainer, current
        )


def best_checkpoint(settings: Mapping[str, Any], monitor: str, folder: Path) -> ModelCheckpoint:
    """The callback that saves the best checkpoint after each validation. ``settings`` are the
    section ``checkpoint``; ``monitor`` is the score to compare if they name none.
    """
    settings = {
        "monitor": monitor,
        "mode": "max",
        "save_on_train_epoch_end": False,
        **{key: value for key, value in settings.items() if key not in LAST_CHECKPOINT_KEYS},
        "save_last": None,
    }
    if settings.get("save_top_k", 1) == 1 and not settings.get("filename"):
        settings |= {"filename": "best", "enable_version_counter": False}
    with lightning_errors("checkpoint"):
        return BestCheckpoint(dirpath=folder, **settings)


def make_trainer(
    settings: Mapping[str, Any],
    folder: Path | None,
    callbacks: Sequence[L.Callback],
    loggers: Sequence[Any] = (),
) -> L.Trainer:
    """A Trainer with the callbacks and loggers of the section ``trainer`` and these in addition.
    Without a folder, the loggers of the section are left out.
    """
    StrategyRegistry.register("fsdp2", Sharded, override=True, save_distributed_checkpoint=False)
    disabled = tuple(cls for key, cls in DISABLED_BY.items() if settings.get(key) is False)
    enabled = [one for one in callbacks if not isinstance(one, disabled)]
    logger = settings.get("logger") or []
    own = [] if folder is None or logger is True else [make_logger(one, folder) for one in logger]
    with lightning_errors("trainer"):
        made = {key: make(value) for key, value in settings.items() if key != "logger"}
        trainer = on_all_processes(
            {
                "num_sanity_val_steps": 0,
                "enable_model_summary": False,
                **made,
                "callbacks": [*(made.get("callbacks") or []), *enabled],
                "default_root_dir": folder,
                "enable_checkpointing": None,
                "logger": [*loggers, *own] or False,
                "plugins": [*(made.get("plugins") or []), AtomicCheckpointIO()],
                "use_distributed_sampler": False,
            }
        )
    adapters.log_steps_from_one(trainer)
    return trainer


def make_logger(logger: Mapping[str, Any], folder: Path) -> Any:
    """A logger of the recipe, which writes into the run's folder; where a training goes on, W&B's
    into the run that it began.
    """
    supplied = dict[str, Any](save_dir=str(folder))
    if logger["class_path"].endswith(".WandbLogger"):
        begun = next(folder.glob("wandb/*run-*"), None)
        supplied |= {"project": "tfzoo", "name": "/".join(folder.parts[-2:])}
        supplied |= {"id": begun and begun.name.rpartition("-")[2]}
    known = arguments(load(logger["class_path"]))
    with lightning_errors("trainer"):
        return make(logger, **{key: value for key, value in supplied.items() if key in known})


@contextmanager
def lightning_errors(section: str) -> Iterator[None]:
    """Turn the errors with which Lightning rejects a section into a ``BadRecipe`` of one line."""
    try:
        yield
    except (
        MisconfigurationException,
        ModuleNotFoundError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        said = " ".join(str(error).split())[:400]
        named = re.search("(devices|strategy)=|accelerator|gpu backend", said)
        key = f"trainer.{named[1] or 'accelerator'}" if named else section
        said += " Use cpu or auto" if "gpu backend" in said else ""
        raise BadRecipe(f"{key}: {said}") from None


def on_all_processes(arguments: Mapping[str, Any]) -> L.Trainer:
    """The Trainer of these arguments. If they do not set the number of devices or machines, it uses
    those that the launcher has started; other numbers are a BadRecipe.
    """
    name, devices, nodes = detect_launcher()
    if not name:
        return L.Trainer(**arguments)
    given = dict(arguments)
    for key, started, left_open in (("devices", devices, "auto"), ("num_nodes", nodes, 1)):
        if given.get(key, left_open) == left_open:
            given[key] = started
    made = L.Trainer(**given)
    if (made.num_devices, made.num_nodes) != (devices, nodes):
        raise BadRecipe(
            f"{name} started {devices} on each of {nodes} machines, but the recipe asks for "
            f"trainer.devices {made.num_devices} and trainer.num_nodes {made.num_nodes}: "
            "start as many processes, or leave both options out"
        )
    return made


def detect_launcher() -> tuple[str, int, int]:
    """The launcher, the number of processes per machine and the number of machines. Without one its
    name is ``""``: the Trainer then starts processes itself.
    """
    if TorchElasticEnvironment.detect():
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        return "torchrun", here, int(os.environ["WORLD_SIZE"]) // here
    if SLURMEnvironment.detect():
        nodes = int(os.environ.get("SLURM_NNODES", "1"))
        return "srun", int(os.environ["SLURM_NTASKS"]) // nodes, nodes
    return "", 1, 1


def launched(words: Sequence[str]) -> list[str]:
    """The command of ``tfzoo`` with these arguments that starts as many processes as this start
    had; empty where it takes further options of a launcher, which are not known here.
    """
    name, here, nodes = detect_launcher()
    if here * nodes == 1:
        return ["tfzoo", *words]
    start = ["torchrun", "--nproc_per_node", str(here), "-m", "tfzoo", "--"]
    return [*start, *words] if name == "torchrun" and nodes == 1 else []


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes and reads the checkpoints of a Trainer, which takes it as a plug-in. A file is renamed
    to its final name once all of it is on the disk: a kill, a full disk or a power cut leaves the
    checkpoint before it untouched.
    """

    def save_checkpoint(
        self, checkpoint: Mapping[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint, and make its folder."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(path) as temporary, open(temporary, "wb") as stream:
                torch.save(checkpoint, stream)
        except RuntimeError as error:  # of torch.save, where a full disk or Ctrl-C cut it off
            if isinstance(error.__context__, OSError | KeyboardInterrupt):
                raise error.__context__ from None
            raise

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load to the CPU, whatever the arguments say: checksums are checked, and only tensors and
        plain values accepted.
        """
        return checkpoints.read(path)


class Sharded(ModelParallelStrategy):
    """The strategy ``fsdp2``: parameters, gradients and optimiser states are sharded over all
    processes (FSDP2). Checkpoints are whole files, as those of other strategies: what is sharded is
    gathered when one is written.

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
