"""Checkpoint files that are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from tfzoo.runs import checkpoints, sharded_files

DRAFT = ".tmp"
"""Ends the name of a file that is being written: nothing takes it for a checkpoint."""


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes and reads a Trainer's checkpoints; given to it as a plug-in.

    A file gets its name once all of it is on the disk, so that a kill, a full disk or a power cut
    leaves the one before as it was.
    A save that fails, or is refused because its state is not finite, does not end training: it is
    said once, and ``failed`` holds why, by the name of the file, until a save under that name
    succeeds.
    """

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}

    def save_checkpoint(
        self, checkpoint: Mapping[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        path = Path(path)
        why = None
        if spoilt := checkpoints.not_finite(checkpoint):
            why = f"{spoilt} is not finite"
        elif error := attempt(checkpoint, path):
            why = error.strerror or type(error).__name__
        self.settle(path, why)

    def settle(self, path: Path, why: str | None) -> None:
        """Remember why a checkpoint could not be written, None where it was, and say what is new."""
        before = self.failed.pop(path.name, None)
        if why is None:
            if before:
                tell(f"{path} is written again")
            return
        self.failed[path.name] = why
        if why != before:
            kept = "what it held before is as it was" if path.exists() else "there is none yet"
            tell(f"cannot write {path}: {why}; {kept}. Training goes on, the next save tries again")

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """On the CPU, its sums checked, tensors and plain values only: whatever is asked for."""
        return checkpoints.read(path)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Nothing is removed to make place for what could not be written."""
        if self.failed.pop(Path(path).name, None) or not self.failed:
            super().remove_checkpoint(path)


def attempt(checkpoint: Mapping[str, Any], path: Path) -> OSError | None:
    """Write, and return what the file system said against it."""
    try:
        write(checkpoint, path)
    except OSError as error:
        return error
    except RuntimeError as error:  # of torch.save, which finds its file shorter than it should be
        if isinstance(error.__context__, OSError):
            return error.__context__
        raise
    return None


def write(checkpoint: Mapping[str, Any], path: Path) -> None:
    """Put a checkpoint under its name in one step, from a draft beside it: in another folder it
    might be on another file system.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + DRAFT)
    try:
        with open(draft, "wb") as stream:
            torch.save(checkpoint, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    with suppress(OSError):  # not every system can promise that names survive a power cut
        sharded_files.sync(path.parent)


def sweep(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for draft in folder.glob(f"*.ckpt{DRAFT}"):
        with suppress(OSError):
            sharded_files.remove(draft)
    sharded_files.sweep(folder)


def tell(text: str) -> None:
    """A line on stderr; only the process that writes has one."""
    print(f"tfzoo: {text}", file=sys.stderr, flush=True)
