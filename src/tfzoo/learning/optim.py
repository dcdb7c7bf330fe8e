"""The optimiser of all tasks, its learning-rate schedule, label smoothing and averaged weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

import torch
from torch import nn

from tfzoo.base import adapters
from tfzoo.base.registry import OptimizerSpec, ScheduleSpec, create, registry
from tfzoo.base.values import check_range
from tfzoo.errors import BadOption, did_you_mean, listing


class Schedule(Protocol):
    """A factor of the peak learning rate for each update, counted from 1. It is over 0 and at most
    1 from the first update to the last.
    """

    def factor(self, update: int) -> float:
        """Learning rate of an update divided by the peak."""
        ...


class Optimizer(Protocol):
    """The options of an optimiser; :meth:`configure` makes the ``torch.optim.Optimizer``.

    Steps with gradients that are not finite must be skipped, so the optimiser must either be
    ``fused`` (PyTorch's fused kernels skip a step by ``found_inf``), or leave a parameter and its
    state unchanged if the parameter's gradient is None. See
    :func:`tfzoo.learning.gradient_normalizer.skip_unless`.
    """

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        """Return an optimiser of the module's parameters that require a gradient."""
        ...


def decay_groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups of the parameters that require a gradient: weight decay for those of two or
    more dimensions, none for others, such as biases and the weights of norms.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a dotted name, or that of a module that it lies in, matches from any of its words on
    a pattern of :mod:`fnmatch`.

    >>> matches("decoder.layers.3.self_attention.inner.query.weight", ["query"])
    True
    >>> matches("decoder.layers.3.norm.weight", ["layers.[0-2]", "embedding"])
    False
    """
    return any(fnmatchcase(f".{name}.", f"*.{pattern}.*") for pattern in patterns)


def check_patterns(
    key: str, patterns: Sequence[str] | None, names: Sequence[str], of: str = "parameter"
) -> None:
    """Check that each pattern of an option matches one of the names, of what ``of`` says.

    Raises:
        BadOption: one does not; the message names the modules there are.
    """
    for pattern in patterns or ():
        if not any(matches(name, [pattern]) for name in names):
            words = dict.fromkeys(word for name in names for word in name.split("."))
            known = [word for word in words if not word.isdigit()]
            raise BadOption(
                f"{key}: no {of}'s name has {pattern!r}.{did_you_mean(pattern, known)} "
                f"Names are made of: {listing(known, 20)}"
            )


@dataclass
class Optim:
    """The optimiser, its learning-rate schedule, label smoothing and averaged weights.

    Args:
        lr: peak learning rate, over 0. The schedule's factor multiplies it.
        betas: decay rates of Adam's two moments, each in ``[0, 1)`` (Kingma and Ba 2015, algorithm
            1; default of Vaswani et al. 2017, section 5.3).
        eps: added to Adam's denominator, over 0.
        weight_decay: weight decay, at least 0, as the optimiser defines it. Applied to parameters
            of two or more dimensions, not to biases and the weights of norms.
        schedule: name and options of a learning-rate schedule, see ``tfzoo list schedule``.
        label_smoothing: probability in ``[0, 1)`` that the target distribution gives to all classes
            except the target and padding, in equal shares. (Szegedy et al. 2016, section 7, and
            ``F.cross_entropy`` give the target a share of it too.) Tasks whose targets are no
            classes leave the default aside and refuse other values; their recipes allow 0 alone.
        max_skipped: the number of skipped steps in a row, at least 1, after which training ends. A
            step is skipped if its loss or a gradient is not finite.
        optimizer: name and options of an optimiser, see ``tfzoo list optimizer``.
        average: validate, test and save the average of the weights of about ``1 / (1 - average)``
            recent steps, 0.995: 200, over 0 and under 1; None: the weights of the last step. See
            :class:`tfzoo.learning.task.WarmupEMA`.
        freeze: parameters that are not trained, by name or pattern: ``[embedding]``,
            ``["layers.[0-3]"]``. A name is a word of the parameter's, or several with dots.

    Raises:
        BadOption: a number outside its range; or ``betas`` or ``eps`` is set, and the optimiser
            does not have it.
    """

    lr: float = 5e-4
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0
    schedule: ScheduleSpec = "inverse_sqrt"
    label_smoothing: float = 0.1
    max_skipped: int = 10
    optimizer: OptimizerSpec = "adamw"
    average: float | None = None
    freeze: list[str] | None = None

    def __post_init__(self) -> None:
        check_range("optim.lr", self.lr, gt=0)
        if len(self.betas) != 2:
            raise BadOption(f"={self.betas} must be two numbers", key="optim.betas")
        for index, beta in enumerate(self.betas):
            check_range(f"optim.betas[{index}]", beta, ge=0, lt=1)
        self.betas = (float(self.betas[0]), float(self.betas[1]))
        check_range("optim.eps", self.eps, gt=0)
        check_range("optim.weight_decay", self.weight_decay, ge=0)
        check_range("optim.label_smoothing", self.label_smoothing, ge=0, lt=1)
        check_range("optim.max_skipped", self.max_skipped, ge=1, whole=True)
        check_range("optim.average", self.average, gt=0, lt=1, optional=True)
        # Checks the names and options of schedule and optimiser before data is read.
        create("schedule", self.schedule, max_steps=1)
        create("optimizer", self.optimizer, betas=self.betas, eps=self.eps)
        entry, _ = registry("optimizer").options(self.optimizer)
        for key in {"betas", "eps"}.difference(entry.supplied):
            if getattr(self, key) != getattr(type(self), key):
                raise BadOption(
                    f": optimizer {entry.name!r} has no {key}. "
                    f"Its options: {listing(entry.options)}",
                    key=f"optim.{key}",
                )

    def check_model(self, model: nn.Module) -> None:
        """Check that the options fit a model, which may be without memory.

        Raises:
            BadOption: a pattern of ``freeze`` names no parameter, or all of them.
        """
        names = [name for name, _ in model.named_parameters()]
        check_patterns("optim.freeze", self.freeze, names)
        if all(matches(name, self.freeze or ()) for name in names):
            raise BadOption(f"={self.freeze} leaves nothing to train", key="optim.freeze")

    def freeze_parameters(self, model: nn.Module) -> None:
        """Leave what ``freeze`` names as it is; errors are those of :meth:`check_model`."""
        self.check_model(model)
        for name, parameter in model.named_parameters():
            if matches(name, self.freeze or ()):
                parameter.requires_grad_(False)

    def configure(self, module: nn.Module, max_steps: int) -> dict[str, Any]:
        """Return what ``configure_optimizers`` of a module of your own returns: the optimiser of
        its parameters, and the scheduler, which steps after each optimiser step. Smoothing of
        labels and skipped steps are those of tfzoo's tasks.

        Raises:
            BadOption: ``freeze`` or ``average`` is set, which tfzoo's tasks alone follow.
        """
        for key, instead in FOLLOWED_BY_TASKS.items():
            if getattr(self, key) is not None:
                raise BadOption(
                    f"optim.{key} is for tfzoo's tasks; in a module of yours, {instead}"
                )
        self.check_model(module)
        return self.optimizer_and_schedule(module, max_steps)

    def optimizer_and_schedule(self, module: nn.Module, max_steps: int) -> dict[str, Any]:
        """As :meth:`configure`, of a task, which follows all settings."""
        made: Optimizer = create("optimizer", self.optimizer, betas=self.betas, eps=self.eps)
        optimizer = made.configure(module, self.lr, self.weight_decay)
        # Lightning refuses to clip the gradients of optimisers that say they unscale gradients.
        adapters.allow_clipping_of_fused(optimizer)
        schedule: Schedule = create("schedule", self.schedule, max_steps=max_steps)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda done: schedule.factor(done + 1)
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


FOLLOWED_BY_TASKS = {
    "freeze": "call requires_grad_(False) of what is not trained",
    "average": "give the Trainer Lightning's callback WeightAveraging",
}
"""Settings that no optimiser has, and what there is instead of them."""
