"""The norm inside the residual branch."""

from typing import Any

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Residual


@register(
    "residual", "pre", paper="arXiv:2002.04745, section 3.1", traits={"final_norm", "parallel"}
)
class Pre(Residual):
    """The norm comes before the sublayer: ``x + f(norm(x))``.

    Shapes: ``(b n d) -> (b n d)``. Options: none. A stack ends in a norm of its own.

    Xiong et al. 2020: at the start of training, gradients are of about the same size in all layers,
    so that a Transformer trains without warm-up.

    >>> import tfzoo, torch
    >>> wrapped = tfzoo.create("residual", "pre", inner=torch.nn.Identity(), dim=2, norm="none")
    >>> wrapped(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[2., 4.]]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        return x + self.branch(self.norm(x, valid), *args)
