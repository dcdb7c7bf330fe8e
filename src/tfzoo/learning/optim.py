"""How parameters are updated: the section ``optim`` of a recipe, optimisers and schedules of the
learning rate.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from tfzoo.base import adapters
from tfzoo.base.registry import Entry, OptimizerSpec, ScheduleSpec, create, register, registry
from tfzoo.base.values import Named, check_range
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
    """Raise a BadOption, which names the modules there are, unless each pattern of an option
    matches one of the names, of what ``of`` says.
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
class Optim(Named):
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
        for index, beta in enumerate(self.betas):
            check_range(f"optim.betas[{index}]", beta, ge=0, lt=1)
        first, second = self.betas
        self.betas = float(first), float(second)
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
        """Raise a BadOption where a pattern of ``freeze`` names no parameter of a model, which may
        be without memory, or all of them.
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


# Optimisers ---------------------------------------------------------------------------------------


@register("optimizer", "adamw", paper="arXiv:1711.05101, algorithm 2")
class AdamW:
    """Adam with decoupled weight decay: ``p - lr (m / (sqrt(v) + eps) + weight_decay p)``, with the
    bias-corrected moving averages ``m`` and ``v`` of the gradient and of its square.

    ``torch.optim.AdamW``, fused: a step takes one kernel, and does not wait for the device. The
    moving averages have the decay rates ``optim.betas``.

    >>> optimizer = AdamW((0.9, 0.98), 1e-9).configure(nn.Linear(2, 3), lr=1e-3, weight_decay=0.1)
    >>> [group["weight_decay"] for group in optimizer.param_groups]
    [0.1, 0.0]
    """

    make: ClassVar[type[torch.optim.Adam]] = torch.optim.AdamW

    def __init__(self, betas: tuple[float, float], eps: float) -> None:
        self.betas, self.eps = betas, eps

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.Adam:
        """The optimiser of a module's trained parameters."""
        groups = decay_groups(module.parameters(), weight_decay)
        return self.make(groups, lr=lr, betas=self.betas, eps=self.eps, fused=True)


@register("optimizer", "adam", paper="arXiv:1412.6980, algorithm 1")
class Adam(AdamW):
    """Adam with L2 regularisation: ``p - lr m / (sqrt(v) + eps)``, with the bias-corrected moving
    averages ``m`` and ``v`` of the gradient ``g + weight_decay p`` and of its square.

    ``torch.optim.Adam``, fused, with the decay rates ``optim.betas``.
    """

    make = torch.optim.Adam


@register("optimizer", "sgd")
class SGD:
    """Gradient descent with momentum: ``b = momentum b + g``, ``p - lr b``.

    ``torch.optim.SGD``. ``optim.weight_decay`` is added to the gradient: ``g + weight_decay p``.
    Not fused: the fused kernel of PyTorch leaves its momentum uninitialised if the first step is
    skipped.

    Options:
        momentum: decay rate of the sum of gradients, in ``[0, 1)``.

    Raises:
        BadOption: a momentum out of range.

    >>> SGD(momentum=0.9).configure(nn.Linear(2, 3), lr=0.1, weight_decay=0.0).defaults["momentum"]
    0.9
    """

    def __init__(self, *, momentum: float = 0.0) -> None:
        check_range("optimizer 'sgd': momentum", momentum, ge=0, lt=1)
        self.momentum = momentum

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.SGD:
        """The optimiser of a module's trained parameters."""
        groups = decay_groups(module.parameters(), weight_decay)
        return torch.optim.SGD(groups, lr=lr, momentum=self.momentum)


@register("optimizer", "muon", paper="arXiv:2502.16982, section 2")
class Muon:
    """Muon for the matrices of the layers: ``p - lr (s U V^T + weight_decay p)``, where ``U S V^T``
    is the singular value decomposition of the matrix's momentum; AdamW for all other parameters.

    ``torch.optim.Muon`` for the matrices of the layers: the parameters of two dimensions in an
    ``nn.ModuleList``, except those of ``nn.Embedding``. Embeddings, output projection, biases and
    norms have ``torch.optim.AdamW`` with ``optim.betas`` and ``optim.eps``. ``U V^T`` is computed
    in bf16 with five Newton-Schulz iterations (Jordan et al. 2024). A matrix ``(a b)`` has ``s =
    0.2 sqrt(max(a, b))``, which gives its update the usual RMS of AdamW's, so that one ``optim.lr``
    serves both.

    Options:
        momentum: decay rate of the mean gradient, in ``[0, 1)``.

    Raises:
        BadOption: a number out of range, or (:meth:`configure`) a module without such matrices.

    >>> layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    >>> optimizer = Muon((0.9, 0.98), 1e-9).configure(layers, 1e-3, 0.0)
    >>> [len(group["params"]) for group in optimizer.param_groups]
    [2, 2]
    """

    def __init__(self, betas: tuple[float, float], eps: float, *, momentum: float = 0.95) -> None:
        check_range("optimizer 'muon': momentum", momentum, ge=0, lt=1)
        self.betas, self.eps, self.momentum = betas, eps, momentum

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        """The optimiser of a module's trained parameters."""
        hidden = matrices(module)
        if not hidden:
            raise BadOption(
                "optimizer 'muon': the model has no matrices in an nn.ModuleList to train"
            )
        chosen = set(hidden)
        rest = decay_groups((p for p in module.parameters() if p not in chosen), weight_decay)
        muon = torch.optim.Muon(
            hidden, lr, weight_decay, self.momentum, adjust_lr_fn="match_rms_adamw"
        )
        if not rest:
            return muon
        return CombinedOptimizer(
            muon, torch.optim.AdamW(rest, lr=lr, betas=self.betas, eps=self.eps)
        )


class CombinedOptimizer(torch.optim.Optimizer):
    """Two optimisers of different parameters as one, for schedulers and checkpoints: its parameter
    groups are those of the first, then those of the second, its state that of both.
    """

    def __init__(self, first: torch.optim.Optimizer, second: torch.optim.Optimizer) -> None:
        super().__init__([*first.param_groups, *second.param_groups], {})
        self.parts, self.count = (first, second), len(first.param_groups)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of both."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = self.param_groups[: self.count], self.param_groups[self.count :]
        for part, own in zip(self.parts, groups, strict=True):
            part.param_groups, part.state = own, self.state  # load_state_dict replaces both
            part.step()
        return loss


def matrices(module: nn.Module) -> list[nn.Parameter]:
    """The trained parameters of two dimensions in the module's layers, the members of an
    ``nn.ModuleList``, except the tables of embeddings.
    """
    lists = [one for one in module.modules() if isinstance(one, nn.ModuleList)]
    tables = {
        p for one in module.modules() if isinstance(one, nn.Embedding) for p in one.parameters()
    }
    found = dict.fromkeys(p for one in lists for p in one.parameters())
    return [p for p in found if p.dim() == 2 and p.requires_grad and p not in tables]


# Schedules ----------------------------------------------------------------------------------------


class Warmup:
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); then what :meth:`after`
    says.
    """

    entry: ClassVar[Entry]

    def __init__(self, *, warmup: int = 0) -> None:
        check_range(f"schedule {self.entry.name!r}: warmup", warmup, ge=0)
        self.warmup = warmup

    def factor(self, update: int) -> float:
        """Learning rate divided by the peak."""
        return update / self.warmup if update < self.warmup else self.after(update)

    def after(self, update: int) -> float:
        """The factor of the last update of the warm-up, 1, and of those that follow."""
        return 1.0


@register("schedule", "constant")
class Constant(Warmup):
    """Linear to the peak in ``warmup`` updates, then constant: ``min(s / warmup, 1)`` at update
    ``s`` (the first is 1).

    >>> Constant().factor(1)
    1.0
    """


@register("schedule", "inverse_sqrt", paper="arXiv:1706.03762, eq. 3")
class InverseSqrt(Warmup):
    """Linear to the peak in ``warmup`` updates, then an inverse square root: ``min(s / warmup,
    sqrt(warmup / s))`` at update ``s`` (the first is 1).

    With ``optim.lr`` set to ``(dim * warmup) ** -0.5`` this is the schedule of the paper.
    ``warmup=0`` has the effect of 1.

    >>> InverseSqrt(warmup=100).factor(400)
    0.5
    """

    def __init__(self, *, warmup: int = 4000) -> None:
        super().__init__(warmup=warmup)

    def after(self, update: int) -> float:
        return float((max(self.warmup, 1) / update) ** 0.5)


class Decay(Warmup):
    """Linear to the peak; then what :meth:`decay` says."""

    def __init__(self, max_steps: int, *, warmup: int = 0) -> None:
        super().__init__(warmup=warmup)
        self.max_steps = max_steps

    def after(self, update: int) -> float:
        done = max(update - 1 - self.warmup, 0)
        return self.decay(done, max(self.max_steps - self.warmup, 1))

    def decay(self, done: int, steps: int) -> float:
        """The factor after ``done`` of the ``steps`` that follow the warm-up."""
        raise NotImplementedError


@register("schedule", "linear", paper="arXiv:1810.04805, appendix A.2")
class LinearDecay(Decay):
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); after ``warmup`` updates
    a linear decay: ``(max_steps - s + 1) / (max_steps - warmup)``.

    The decay is that of ``get_linear_schedule_with_warmup`` of transformers, which counts updates
    from 0: the first update after the warm-up has the peak, and the factor would reach 0 one update
    after the last.

    >>> LinearDecay(100).factor(76), LinearDecay(100).factor(100)
    (0.25, 0.01)
    """

    def decay(self, done: int, steps: int) -> float:
        return max(steps - done, 0) / steps


@register("schedule", "cosine", paper="arXiv:1608.03983, eq. 5")
class Cosine(Decay):
    """Linear to the peak: ``s / warmup`` at update ``s`` (the first is 1); after ``warmup`` updates
    half a cosine: ``(1 + cos(pi t)) / 2`` with ``t = (s - 1 - warmup) / (max_steps - warmup)``.

    The decay is that of ``get_cosine_schedule_with_warmup`` of transformers, which counts updates
    from 0: the first update after the warm-up has the peak, and the factor would reach 0 one update
    after the last. Training with fewer updates than ``warmup`` does not reach the peak.

    >>> round(Cosine(100).factor(51), 12)
    0.5
    """

    def decay(self, done: int, steps: int) -> float:
        # = (1 + cos(pi t)) / 2 with t = done / steps, without cancellation near t = 1
        return math.cos(math.pi * min(done / steps, 1.0) / 2) ** 2
