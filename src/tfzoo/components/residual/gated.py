"""A gate in place of the residual connection's sum."""

from typing import Any

import torch
from torch import Tensor, nn

from tfzoo.base.registry import NormSpec, register
from tfzoo.contracts import Residual


@register("residual", "gated", paper="arXiv:1910.06764, section 3.2", traits={"final_norm"})
class Gated(Residual):
    """A gated recurrent unit in place of the sum: ``(1 - z) x + z h`` of ``x`` and ``y = max(0,
    f(norm(x)))``.

    ``z = sigmoid(W_z y + U_z x - b)``, ``r = sigmoid(W_r y + U_r x)``, ``h = tanh(W_h y + U_h (r *
    x))``.

    Shapes: ``(b n d) -> (b n d)``. Matrices start uniform by Glorot's rule. The layer has ``6 d^2``
    parameters a sublayer beside the sublayer's. A stack ends in a norm of its own. GTrXL's
    (Parisotto et al. 2019).

    Options:
        bias: initial value of ``b``, one number a channel: above 0, a layer starts close to the
            identity.

    >>> import tfzoo, torch
    >>> wrapped = tfzoo.create("residual", {"name": "gated", "bias": 100.0}, dim=2, norm="none",
    ...                        inner=torch.nn.Identity())
    >>> wrapped(torch.tensor([[[1.0, 2.0]]])).detach()
    tensor([[[1., 2.]]])
    """

    def __init__(
        self, inner: nn.Module, dropout: float, dim: int, norm: NormSpec, *, bias: float = 2.0
    ) -> None:
        super().__init__(inner, dropout, dim, norm)
        self.initial_bias = bias
        self.bias = nn.Parameter(torch.empty(dim))
        self.from_sublayer = nn.Linear(dim, 3 * dim, bias=False)  # W_z, W_r and W_h
        self.from_input = nn.Linear(dim, 2 * dim, bias=False)  # U_z and U_r
        self.from_reset = nn.Linear(dim, dim, bias=False)  # U_h
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.bias, self.initial_bias)
        for layer in (self.from_sublayer, self.from_input, self.from_reset):
            for weight in torch.split(layer.weight, layer.in_features):
                nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        y = self.branch(self.norm(x, valid), *args).relu()
        z, r, h = self.from_sublayer(y).chunk(3, -1)
        from_x = self.from_input(x).chunk(2, -1)
        z = (z + from_x[0] - self.bias).sigmoid()
        r = (r + from_x[1]).sigmoid()
        h = (h + self.from_reset(r * x)).tanh()
        return x + z * (h - x)  # type: ignore[no-any-return]
