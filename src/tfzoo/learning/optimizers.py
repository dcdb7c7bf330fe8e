"""Optimisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.errors import BadOption
from tfzoo.learning.optim import decay_groups


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
        nesterov: look ahead: ``p - lr (g + momentum b)`` (Sutskever et al. 2013).

    Raises:
        BadOption: a momentum out of range, or ``nesterov`` without momentum.

    >>> SGD(momentum=0.9).configure(nn.Linear(2, 3), lr=0.1, weight_decay=0.0).defaults["momentum"]
    0.9
    """

    def __init__(self, *, momentum: float = 0.0, nesterov: bool = False) -> None:
        check_range("optimizer 'sgd': momentum", momentum, ge=0, lt=1)
        if nesterov and not momentum:
            raise BadOption("optimizer 'sgd': nesterov needs a momentum over 0")
        self.momentum, self.nesterov = momentum, nesterov

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.SGD:
        """The optimiser of a module's trained parameters."""
        groups = decay_groups(module.parameters(), weight_decay)
        return torch.optim.SGD(groups, lr=lr, momentum=self.momentum, nesterov=self.nesterov)


@register("optimizer", "muon", paper="arXiv:2502.16982, section 2")
class Muon:
    """Muon for the matrices of the layers: ``p - lr (s U V^T + weight_decay p)``, where ``U S V^T``
    is the singular value decomposition of the matrix's momentum; AdamW for all other parameters.

    ``torch.optim.Muon`` for the matrices of the layers: the parameters of two dimensions in an
    ``nn.ModuleList``, except those of ``nn.Embedding``. Embeddings, output projection, biases and
    norms have ``torch.optim.AdamW`` with ``optim.betas`` and ``optim.eps``. ``U V^T`` is computed
    in bf16 with five Newton-Schulz iterations (Jordan et al. 2024). A matrix ``(a b)`` has ``s =
    0.2 sqrt(max(a, b))``, which gives its update the usual RMS of AdamW's.

    Options:
        momentum: decay rate of the mean gradient, in ``[0, 1)``.
        nesterov: look ahead by one step of momentum.
        adamw_lr: peak learning rate of AdamW; None: ``optim.lr``. The schedule multiplies both.
        scale: ``match_rms_adamw``, or ``original``: ``s = sqrt(max(1, a / b))``, which needs a
            larger ``optim.lr``, such as 0.02.

    Raises:
        BadOption: a number out of range, or (:meth:`configure`) a module without such matrices.

    >>> layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    >>> optimizer = Muon((0.9, 0.98), 1e-9, adamw_lr=1e-4).configure(layers, 1e-3, 0.0)
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.001, 0.0001]
    """

    def __init__(
        self,
        betas: tuple[float, float],
        eps: float,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        adamw_lr: float | None = None,
        scale: Literal["match_rms_adamw", "original"] = "match_rms_adamw",
    ) -> None:
        check_range("optimizer 'muon': momentum", momentum, ge=0, lt=1)
        check_range("optimizer 'muon': adamw_lr", adamw_lr, gt=0, optional=True)
        self.betas, self.eps, self.adamw_lr = betas, eps, adamw_lr
        self.options: dict[str, Any] = {
            "momentum": momentum,
            "nesterov": nesterov,
            "adjust_lr_fn": scale,
        }

    def configure(self, module: nn.Module, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        """The optimiser of a module's trained parameters."""
        hidden = matrices(module)
        if not hidden:
            raise BadOption(
                "optimizer 'muon': the model has no matrices in an nn.ModuleList to train"
            )
        chosen = set(hidden)
        rest = decay_groups((p for p in module.parameters() if p not in chosen), weight_decay)
        muon = torch.optim.Muon(hidden, lr=lr, weight_decay=weight_decay, **self.options)
        if not rest:
            return muon
        rate = lr if self.adamw_lr is None else self.adamw_lr
        return CombinedOptimizer(
            muon, torch.optim.AdamW(rest, lr=rate, betas=self.betas, eps=self.eps)
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
