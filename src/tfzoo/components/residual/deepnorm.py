"""The norm after a residual connection that weighs more, the deeper the stack."""

from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import NormSpec, register
from tfzoo.base.values import check_range
from tfzoo.contracts import Residual, value_matrices


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

    The defaults are those of the stack that it stands in: a decoder with cross-attention has the
    last line, the encoder of a :class:`tfzoo.Transformer` the second. An ``Encoder`` and a layer by
    themselves know of no decoder and no other layers: where there are some, set both numbers. A
    model's option ``init_std`` replaces ``beta``.

    Options:
        alpha: multiplies the residual connection.
        beta: multiplies the initial matrices that values pass in the sublayer: those of a
            feed-forward layer or of its experts, value and output projections of attention, the
            kernel and the projections of a convolution, the matrices of a recurrent network. Those
            of queries, keys, gates and routers start as they are.

    >>> import tfzoo, torch
    >>> wrapped = tfzoo.create("residual", "deepnorm", inner=torch.nn.Identity(), dim=2,
    ...                        norm="none", layers=8)
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
        cross: bool,
        decoder_layers: int,
        *,
        alpha: float | None = None,
        beta: float | None = None,
    ) -> None:
        super().__init__(inner, dropout, dim, norm)
        check_range("residual 'deepnorm': alpha", alpha, gt=0, optional=True)
        check_range("residual 'deepnorm': beta", beta, gt=0, optional=True)
        constants = alpha_and_beta(layers, cross, decoder_layers)
        self.alpha, self.beta = alpha or constants[0], beta or constants[1]
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Multiply the initial matrices of the sublayer, which it has just drawn, by ``beta``."""
        for matrix in value_matrices(self.inner):
            matrix.mul_(self.beta)

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        return self.norm(self.alpha * x + self.branch(x, *args), valid)


def alpha_and_beta(layers: int, cross: bool, decoder_layers: int) -> tuple[float, float]:
    """The numbers of the table, for a stack of ``layers``."""
    if cross:
        return (3 * layers) ** 0.25, (12 * layers) ** -0.25
    if decoder_layers:
        both = (layers**4 * decoder_layers) ** (1 / 16)
        return 0.81 * both, 0.87 / both
    return (2 * layers) ** 0.25, (8 * layers) ** -0.25
