"""Checkpoint files are written under a temporary name and renamed when they are complete."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from tfzoo.runs import checkpoints
from tfzoo.runs.files import replacing


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes and reads the checkpoints of a Trainer, which takes it as a plug-in.

    A file is renamed to its final name once all of it is on the disk. A kill, a full disk or a
    power cut therefore leaves the checkpoint before it untouched.
    """

    def save_checkpoint(
        self, checkpoint: Mapping[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint, and make its folder.

        Raises:
            OSError: the file system's.
        """
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
