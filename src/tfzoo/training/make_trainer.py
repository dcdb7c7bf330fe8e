"""Make Lightning's Trainer, and the callback that saves the best checkpoint, from a resolved
configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from jsonargparse import Namespace
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import callbacks as lightning_callbacks
from lightning.pytorch.callbacks import ModelCheckpoint

from tfzoo.base import adapters
from tfzoo.base.ranks import rank
from tfzoo.config.lightning import RUN_FOLDER, LightningConfig
from tfzoo.config.merge import as_list
from tfzoo.errors import BadRecipe
from tfzoo.runs.checkpoint_io import AtomicCheckpointIO
from tfzoo.training import fsdp_strategy, launcher, tracking

DISABLED_BY = {
    "enable_progress_bar": lightning_callbacks.ProgressBar,
    "enable_checkpointing": lightning_callbacks.ModelCheckpoint,
}
"""The arguments of the Trainer that remove tfzoo's own callbacks of a class if they are False."""
LAST_CHECKPOINT_KEYS = {"every_n_train_steps", "train_time_interval"}
"""Keys of the section ``checkpoint`` that say when the last checkpoint is written."""


def make_trainer(
    config: LightningConfig,
    folder: Path | None,
    callbacks: Sequence[L.Callback],
    loggers: Sequence[Any] = (),
) -> L.Trainer:
    """Return a Trainer with the configured callbacks and loggers and these in addition. Without a
    folder, the configured loggers are left out.

    Raises:
        BadRecipe: Lightning rejects the configuration.
    """
    fsdp_strategy.register()
    values = config.values.clone()
    if folder is None:
        values.trainer.logger = None
    for logger in as_list(values.trainer.logger):
        if isinstance(logger, Namespace):
            _configure_logger(logger, folder)
    with lightning_errors("trainer"):
        arguments = dict(config.parser.instantiate(values).trainer)
        configured = [one for one in as_list(arguments["logger"]) if one and one is not True]
        disabled = tuple(cls for key, cls in DISABLED_BY.items() if arguments[key] is False)
        enabled = [one for one in callbacks if not isinstance(one, disabled)]
        arguments |= {
            "callbacks": [*as_list(arguments["callbacks"] or []), *enabled],
            "default_root_dir": folder,
            "enable_checkpointing": None,
            "enable_model_summary": bool(arguments["enable_model_summary"]),
            "logger": [*loggers, *configured] or False,
            "plugins": [*as_list(arguments["plugins"] or []), AtomicCheckpointIO()],
            "use_distributed_sampler": False,
        }
        if arguments["num_sanity_val_steps"] is None:
            arguments["num_sanity_val_steps"] = 0
        trainer = launcher.trainer(arguments)
    adapters.log_steps_from_one(trainer)
    return trainer


def best_checkpoint(settings: Mapping[str, Any], monitor: str, folder: Path) -> ModelCheckpoint:
    """Return the callback that saves the best checkpoint after each validation. ``settings`` are
    the section ``checkpoint``; ``monitor`` is the score to compare if they name none.

    Raises:
        BadRecipe: Lightning rejects the settings.
    """
    given = {key: value for key, value in settings.items() if key not in LAST_CHECKPOINT_KEYS}
    arguments = {
        "monitor": monitor,
        "mode": "max",
        "save_on_train_epoch_end": False,
        **given,
        "save_last": None,
    }
    if arguments.get("save_top_k", 1) == 1 and not arguments.get("filename"):
        arguments |= {"filename": "best", "enable_version_counter": False}
    with lightning_errors("checkpoint"):
        return ModelCheckpoint(dirpath=folder, **arguments)


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
        raise BadRecipe(f"{section}: {' '.join(str(error).split())[:400]}") from None


def _configure_logger(logger: Namespace, folder: Path | None) -> None:
    if logger.init_args.get("save_dir") == RUN_FOLDER:
        logger.init_args.save_dir = str(folder)
    if logger.class_path.endswith("WandbLogger") and folder and not rank():
        tracking.configure(logger, folder)
