"""The Trainer of a recipe, with tfzoo's callbacks and loggers beside its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from jsonargparse import Namespace
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import callbacks as lightning_callbacks

from tfzoo.config.config import Config
from tfzoo.config.lightning import FILLED_IN, as_list
from tfzoo.errors import BadRecipe
from tfzoo.runs import fsdp_strategy
from tfzoo.runs.checkpoint_io import AtomicCheckpointIO
from tfzoo.runs.folder import rank
from tfzoo.training import launcher, tracking


def make(
    config: Config,
    folder: Path | None,
    callbacks: Sequence[L.Callback],
    loggers: Sequence[Any] = (),
) -> L.Trainer:
    """The Trainer of a recipe, with our callbacks and loggers beside its own; without a folder none
    is made of its loggers.

    Raises:
        BadRecipe: Lightning refuses what the recipe asks for.
    """
    fsdp_strategy.register()
    values = config.lightning.values.clone()
    if folder is None:
        values.trainer.logger = None
    for logger in as_list(values.trainer.logger):
        if isinstance(logger, Namespace):
            _place(logger, folder)
    with refusals("trainer"):
        arguments = dict(config.lightning.parser.instantiate(values).trainer)
        given = arguments.pop("logger")
        own = [one for one in as_list(given) if one and one is not True]
        unwanted = {
            "enable_progress_bar": lightning_callbacks.ProgressBar,
            "enable_checkpointing": lightning_callbacks.ModelCheckpoint,
        }
        without = tuple(cls for key, cls in unwanted.items() if arguments[key] is False)
        kept = [one for one in callbacks if not isinstance(one, without)]
        arguments |= {
            "callbacks": [*as_list(arguments["callbacks"] or []), *kept],
            "enable_checkpointing": None,
        }
        arguments |= {
            "use_distributed_sampler": False,
            "default_root_dir": folder,
            "logger": [*loggers, *own] or False,
        }
        arguments["enable_model_summary"] = bool(arguments["enable_model_summary"])
        arguments["plugins"] = [*as_list(arguments["plugins"] or []), AtomicCheckpointIO()]
        if arguments["num_sanity_val_steps"] is None:
            arguments["num_sanity_val_steps"] = 0
        return launcher.trainer(arguments)


@contextmanager
def refusals(section: str) -> Iterator[None]:
    """What Lightning refuses of a section, as one line of ours."""
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


def _place(logger: Namespace, folder: Path | None) -> None:
    if logger.init_args.get("save_dir") == FILLED_IN:
        logger.init_args.save_dir = str(folder)
    if logger.class_path.endswith("WandbLogger") and folder and not rank():
        tracking.place(logger, folder)
