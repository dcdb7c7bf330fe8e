"""The device that ``--device`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfzoo.errors import TfzooError

if TYPE_CHECKING:
    import torch

DEVICES = "cpu, cuda, cuda:N or mps"


def find_device(name: str | None) -> torch.device:
    """The device of a name; of None the first GPU, or the CPU if there is none.

    Raises:
        TfzooError: there is no such device.
    """
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError, NotImplementedError) as error:  # PyTorch knows best
        why = str(error).strip().partition("\n")[0][:150]
        raise TfzooError(f"--device {name}: no such device; one of {DEVICES} ({why})") from None


def trainer_device(name: str) -> dict[str, Any]:
    """The arguments of Lightning's Trainer for a device.

    Raises:
        TfzooError: there is no such device.
    """
    device = find_device(name)
    return {
        "accelerator": device.type,
        "devices": [device.index or 0] if device.type == "cuda" else 1,
    }
