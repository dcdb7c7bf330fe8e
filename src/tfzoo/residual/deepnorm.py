"""The norm after a residual connection that weighs more, the deeper the stack."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.contracts import Norm, Residual
from tfzoo.registry import NormSpec, create, register
from tfzoo.values import check_range

NOT_SCALED = ("query", "key", "gate", "attention")
"""What of an attention block starts as it is: scores are a matter of their own."""


@register("residual", "deepnorm", paper="arXiv:2203.00555, section 4.1", traits={"ends_with_norm"})
class DeepNorm(Residual):
    """The norm comes after a weighted residual connection: ``norm(alpha x + f(x))``.

    Shapes: ``(b n d) -> (b n d)``. Wang et al. 2022 train 1,000 layers with these (figure 2):

    ======================================  ======================  =======================
    N layers of an encoder, M of a decoder  alpha                   beta
    ======================================  ======================  =======================
    encoder or decoder alone, N layers      (2 N)^(1/4)             (8 N)^(-1/4)
    encoder of an encoder-decoder           0.81 (N^4 M)^(1/16)     0.87 (N^4 M)^(-1/16)
    decoder of an encoder-decoder           (3 M)^(1/4)             (12 M)^(-1/4)
    ======================================  ======================  =======================

    The defaults are those of the first line, as a layer knows the number of ``layers`` of its own
    stack alone. In an encoder-decoder, set both numbers for each side (``encoder: {residual: {name:
    deepnorm, alpha: ..., beta: ...}}``). A model's option ``init_std`` replaces ``beta``.

    Options:
        alpha: multiplies the residual connection.
        beta: multiplies the initial weights of the sublayer: all matrices of a feed-forward layer,
            value and output projection of attention.

    >>> import torch
    >>> from tfzoo.registry import create
    >>> wrapped = create("residual", "deepnorm", inner=torch.nn.Identity(), dropout=0.0, dim=2,
    ...                  norm="none", layer=0, layers=8)
    >>> wrapped(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[3., 6.]]])
    """

    def __init__(
        self,
        inner: nn.Module,
        dropout: float,
        dim: int,
        norm: NormSpec,
        layers: int,
        *,
        alpha: float | None = None,
        beta: float | None = None,
    ) -> None:
        super().__init__(inner, dropout)
        check_range("residual 'deepnorm': alpha", alpha, gt=0, optional=True)
        check_range("residual 'deepnorm': beta", beta, gt=0, optional=True)
        self.alpha = (2 * layers) ** 0.25 if alpha is None else alpha
        self.beta = (8 * layers) ** -0.25 if beta is None else beta
        self.norm: Norm = create("norm", norm, dim=dim)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Multiply the initial weights of the sublayer, which it has just drawn, by ``beta``."""
        for name, module in self.inner.named_modules():
            if isinstance(module, nn.Linear) and name.partition(".")[0] not in NOT_SCALED:
                module.weight.mul_(self.beta)

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        return self.norm(self.alpha * x + self.branch(x, *args), valid)  # type: ignore[no-any-return]
