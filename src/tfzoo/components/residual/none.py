"""No residual connection."""

from typing import Any

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Residual


@register("residual", "none", traits={"replaces"})
class NoResidual(Residual):
    """No residual connection: ``f(norm(x))``.

    Shapes: ``(b n d) -> (b n d)``. Options: none. To measure what residual connections do: without
    them, tokens become alike from layer to layer (Dong et al. 2021, arXiv:2103.03404).

    >>> import tfzoo, torch
    >>> wrapped = tfzoo.create("residual", "none", inner=torch.nn.Identity(), dim=2, norm="none")
    >>> wrapped(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 2.]]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        return self.branch(self.norm(x, valid), *args)
