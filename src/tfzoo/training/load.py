"""A trained run, ready to be applied on a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tfzoo.base.memory import keep_freed_memory
from tfzoo.base.terminal import relative_path, silence_lightning
from tfzoo.errors import BadRun, TfzooError
from tfzoo.learning.trained_run import TrainedRun

if TYPE_CHECKING:
    from tfzoo.learning.task import Task


def load(run: str | Path | TrainedRun, *, device: str | None = None, model: Any = None) -> Task:
    """Load a trained run, whatever its task is, in evaluation mode::

        task = tfzoo.load("runs/numbers/1")
        task.predict(["twenty plus two"])
        task.model, task.tokenizer

    Args:
        run: a run's folder, which stands for its best checkpoint; a checkpoint; a folder that
            ``save_pretrained`` wrote, tfzoo's or that of ``transformers``; or a repository of the
            Hugging Face Hub, ``hf://name/repository`` or ``hf://name/repository@revision``.
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``mps``; None: the first GPU, or the CPU.
        model: for a task that was trained with a model of another class than tfzoo's: an instance
            of that class with the same structure. It gets the trained weights.

    Raises:
        BadRun: no such run; or it is damaged, or its weights are not finite.
        TfzooError: there is no such device.
    """
    place, trained = find_device(device), run if isinstance(run, TrainedRun) else TrainedRun(run)
    keep_freed_memory()
    cls = trained.task  # its import sets what is silenced
    silence_lightning()
    task: Task = trained.load(cls, model=model)
    broken = (name for name, one in task.named_parameters() if not one.isfinite().all())
    if part := next(broken, ""):
        raise BadRun(
            f"{relative_path(trained.path)}: {part} is not finite: its training has diverged"
        )
    return task.to(place)


def find_device(name: str | None) -> torch.device:
    """The device of a name, or a TfzooError; of None the first GPU, or the CPU if there is none."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError, NotImplementedError) as error:  # PyTorch knows best
        why = str(error).strip().partition("\n")[0][:150]
        raise TfzooError(f"--device {name}: no such device ({why})") from None


def trainer_device(name: str) -> dict[str, Any]:
    """The arguments of Lightning's Trainer for a device."""
    device = find_device(name)
    return {
        "accelerator": device.type,
        "devices": [device.index or 0] if device.type == "cuda" else 1,
    }
