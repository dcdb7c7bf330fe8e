"""The rank of this process among those of one training."""

from __future__ import annotations

import os


def rank() -> int:
    """The rank of this process among all processes, as Lightning finds it; 0 where there is one
    process.

    torchrun sets ``RANK`` and srun ``SLURM_PROCID``. Other processes have the rank
    ``NODE_RANK * LOCAL_WORLD_SIZE + LOCAL_RANK``; where their launcher leaves ``LOCAL_WORLD_SIZE``
    out, ranks on further machines are only known to be above 0.
    """
    if _number("RANK") is not None:
        return _number("RANK") or 0
    if "SLURM_NTASKS" in os.environ and _number("SLURM_PROCID") is not None:
        return _number("SLURM_PROCID") or 0
    node = _number("NODE_RANK") or _number("GROUP_RANK") or 0
    return node * (_number("LOCAL_WORLD_SIZE") or 1) + (_number("LOCAL_RANK") or 0)


def local_rank() -> int:
    """The rank of this process among those that a launcher has started on this machine."""
    return _number("LOCAL_RANK") or _number("SLURM_LOCALID") or 0


def _number(variable: str) -> int | None:
    """An environment variable as a number; None where it is not set or no number."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else None
