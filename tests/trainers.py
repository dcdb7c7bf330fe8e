"""A Trainer of Lightning's that prints and writes nothing."""

from pathlib import Path
from typing import Any

import lightning.pytorch as L


def quiet(folder: Path | None = None, **options: Any) -> L.Trainer:
    """On one CPU, without sanity checks of the validation; ``options`` come on top."""
    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    given = {"accelerator": "cpu", "devices": 1, "num_sanity_val_steps": 0}
    return L.Trainer(default_root_dir=folder, **{**given, **dict.fromkeys(off, False), **options})
