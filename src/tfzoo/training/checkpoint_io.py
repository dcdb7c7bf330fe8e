"""Checkpoint files are written under a temporary name and renamed when they are complete."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from tfzoo.base.terminal import notify_from_any_rank
from tfzoo.runs import checkpoints
from tfzoo.runs.files import replacing


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes and reads the checkpoints of a Trainer, which takes it as a plug-in.

    A file is renamed to its final name once all of it is on the disk. A kill, a full disk or a
    power cut therefore leaves the checkpoint before it untouched.

    A save that fails, or whose state is not finite, does not end training. The reason is printed
    once; ``failed`` holds it by file name, until a save under that name succeeds.
    """

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}

    def save_checkpoint(
        self, checkpoint: Mapping[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        path = Path(path)
        why = None
        if name := checkpoints.not_finite(checkpoint):
            why = f"{name} is not finite"
        elif error := attempt(checkpoint, path):
            why = error.strerror or type(error).__name__
        self.report(path, why)

    def report(self, path: Path, why: str | None) -> None:
        """Note why a checkpoint could not be written, None where it was; print what changed."""
        before = self.failed.pop(path.name, None)
        if why is None:
            if before:
                notify_from_any_rank(f"{path} is written again")
            return
        self.failed[path.name] = why
        if why != before:
            kept = "what it held before is as it was" if path.exists() else "there is none yet"
            notify_from_any_rank(
                f"cannot write {path}: {why}; {kept}. Training goes on, the next save tries again"
            )

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load to the CPU, whatever the arguments say: checksums are checked, and only tensors and
        plain values accepted.
        """
        return checkpoints.read(path)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Keep the file while a checkpoint that should replace it could not be written."""
        if self.failed.pop(Path(path).name, None) or not self.failed:
            super().remove_checkpoint(path)


def attempt(checkpoint: Mapping[str, Any], path: Path) -> OSError | None:
    """Write a checkpoint, and make its folder; return the file system's error where that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, open(temporary, "wb") as stream:
            torch.save(checkpoint, stream)
    except OSError as error:
        return error
    except RuntimeError as error:  # torch.save raises it where a file is shorter than it wrote
        if isinstance(error.__context__, OSError):
            return error.__context__
        if isinstance(error.__context__, KeyboardInterrupt):  # a second Ctrl-C
            raise error.__context__ from None
        raise
    return None
