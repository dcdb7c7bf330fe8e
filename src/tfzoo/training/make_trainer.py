"""Make Lightning's Trainer from a resolved configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from jsonargparse import Namespace
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import callbacks as lightning_callbacks

from tfzoo.config.lightning import RUN_FOLDER, LightningConfig
from tfzoo.config.merge import as_list
from tfzoo.errors import BadRecipe
from tfzoo.runs import fsdp_strategy
from tfzoo.runs.checkpoint_io import AtomicCheckpointIO
from tfzoo.runs.folder import rank
from tfzoo.training import launcher, tracking

DISABLED_BY = {
    "enable_progress_bar": lightning_callbacks.ProgressBar,
    "enable_checkpointing": lightning_callbacks.ModelCheckpoint,
}
"""The arguments of the Trainer that remove tfzoo's own callbacks of a class if they are False."""


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
        return launcher.trainer(arguments)


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
