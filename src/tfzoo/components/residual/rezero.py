"""A residual branch that starts at zero."""

from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import NormSpec, register
from tfzoo.contracts import Residual


@register("residual", "rezero", paper="arXiv:2003.04887, eq. 1", traits={"final_norm"})
class ReZero(Residual):
    """The sublayer is added with a trained weight: ``x + alpha f(norm(x))``, ``alpha`` starts at 0.

    Shapes: ``(b n d) -> (b n d)``. Options: none. A layer starts as the identity. Bachlechner et
    al. 2020 leave the norm out: ``norm: none``. Otherwise a stack ends in a norm of its own.

    >>> import tfzoo, torch
    >>> wrapped = tfzoo.create("residual", "rezero", inner=torch.nn.Identity(), dim=2, norm="none")
    >>> torch.nn.init.constant_(wrapped.alpha, 0.5)
    Parameter containing:
    tensor([0.5000], requires_grad=True)
    >>> wrapped(torch.tensor([[[1.0, 2.0]]])).detach()
    tensor([[[1.5000, 3.0000]]])
    """

    def __init__(self, inner: nn.Module, dropout: float, dim: int, norm: NormSpec) -> None:
        super().__init__(inner, dropout, dim, norm)
        self.alpha = nn.Parameter(torch.empty(1))  # FSDP shards no parameter without an axis
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.alpha)

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        return x + self.alpha * self.branch(self.norm(x, valid), *args)
