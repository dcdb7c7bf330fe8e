"""The optimiser of every task: Adam, its schedule, and what the loss smooths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tfzoo import _adapters
from tfzoo.errors import BadOption
from tfzoo.registry import ScheduleSpec, create
from tfzoo.tasks.schedule import Schedule


@dataclass
class Optim:
    """How to train.

    Args:
        lr: peak learning rate; the schedule multiplies it.
        betas, eps: Adam's (Kingma and Ba 2015, algorithm 1; values of Vaswani et al. 2017, section
            5.3).
        weight_decay: decoupled (Loshchilov and Hutter 2019), on matrices only: no bias, no norm.
        schedule: see ``tfzoo list schedule``.
        label_smoothing: probability spread over all classes but the right one and padding (Szegedy
            et al. 2016, section 7).
        max_skipped: a step whose loss or gradient is not finite is left out; so many in a row end
            the training.

    Raises:
        BadOption: a number that no training can have.
    """

    lr: float = 5e-4
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0
    schedule: ScheduleSpec = "inverse_sqrt"
    label_smoothing: float = 0.1
    max_skipped: int = 10

    def __post_init__(self) -> None:
        self.betas = (float(self.betas[0]), float(self.betas[1]))
        if not self.lr > 0:
            raise BadOption(f"lr={self.lr} must be over 0")
        if not 0 <= self.label_smoothing < 1:
            raise BadOption(
                f"label_smoothing={self.label_smoothing} is a probability: at least 0 and under 1"
            )
        if self.max_skipped < 1:
            raise BadOption(f"max_skipped={self.max_skipped} must be at least 1")
        create(
            "schedule", self.schedule, max_steps=1
        )  # so that a misspelt schedule is known before data is read

    def configure(self, parameters: Iterable[nn.Parameter], max_steps: int) -> dict[str, Any]:
        """What ``configure_optimizers`` returns: the optimiser, and the schedule stepped after
        every update.
        """
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        groups = [
            {"params": [p for p in trained if p.dim() > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=self.lr,
            betas=self.betas,
            eps=self.eps,
            fused=True,
        )
        # Lightning refuses to clip gradients beside an optimiser that says it unscales them itself.
        _adapters.allow_clipping_of_fused(optimizer)
        schedule: Schedule = create("schedule", self.schedule, max_steps=max_steps)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda done: schedule.factor(done + 1)
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }
