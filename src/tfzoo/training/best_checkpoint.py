"""The callback that saves the best checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import ModelCheckpoint

from tfzoo.training.make_trainer import lightning_errors

LAST_CHECKPOINT_KEYS = {"every_n_train_steps", "train_time_interval"}
"""Keys of the section ``checkpoint`` that say when the last checkpoint is written."""


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
