"""The optimiser of all tasks: AdamW and a learning-rate schedule."""

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
from tfzoo.values import check_range


@dataclass
class Optim:
    """AdamW, its learning-rate schedule, and label smoothing.

    Args:
        lr: peak learning rate, over 0. The schedule's factor multiplies it.
        betas: decay rates of Adam's two moments, each in ``[0, 1)`` (Kingma and Ba 2015, algorithm
            1; default of Vaswani et al. 2017, section 5.3).
        eps: added to Adam's denominator, over 0.
        weight_decay: decoupled weight decay (Loshchilov and Hutter 2019), at least 0. Applied to
            parameters of two or more dimensions, not to biases and the weights of norms.
        schedule: name and options of a learning-rate schedule, see ``tfzoo list schedule``.
        label_smoothing: probability in ``[0, 1)`` that the target distribution gives to all classes
            except the target and padding (Szegedy et al. 2016, section 7).
        max_skipped: the number of skipped steps in a row, at least 1, after which training ends. A
            step is skipped if its loss or a gradient is not finite.

    Raises:
        BadOption: a number outside its range.
    """

    lr: float = 5e-4
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0
    schedule: ScheduleSpec = "inverse_sqrt"
    label_smoothing: float = 0.1
    max_skipped: int = 10

    def __post_init__(self) -> None:
        check_range("optim.lr", self.lr, gt=0)
        if len(self.betas) != 2:
            raise BadOption(f"optim.betas={self.betas} must be two numbers")
        for place, beta in enumerate(self.betas):
            check_range(f"optim.betas[{place}]", beta, ge=0, lt=1)
        self.betas = (float(self.betas[0]), float(self.betas[1]))
        check_range("optim.eps", self.eps, gt=0)
        check_range("optim.weight_decay", self.weight_decay, ge=0)
        check_range("optim.label_smoothing", self.label_smoothing, ge=0, lt=1)
        check_range("optim.max_skipped", self.max_skipped, ge=1, whole=True)
        # Checks the name and options of the schedule before data is read.
        create("schedule", self.schedule, max_steps=1)

    def configure(self, parameters: Iterable[nn.Parameter], max_steps: int) -> dict[str, Any]:
        """Return what ``configure_optimizers`` returns: the optimiser, and the scheduler, which
        steps after each optimiser step.
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
        # Lightning refuses to clip the gradients of optimisers that say they unscale gradients.
        _adapters.allow_clipping_of_fused(optimizer)
        schedule: Schedule = create("schedule", self.schedule, max_steps=max_steps)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda done: schedule.factor(done + 1)
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }
