"""The norm after the residual connection."""

from typing import Any

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Residual


@register("residual", "post", paper="arXiv:1706.03762, section 3.1", traits={"ends_with_norm"})
class Post(Residual):
    """The norm comes after the residual connection: ``norm(x + f(x))``.

    Shapes: ``(b n d) -> (b n d)``. Options: none. The Transformer's own (Vaswani et al. 2017).

    >>> import tfzoo, torch
    >>> wrapped = tfzoo.create("residual", "post", inner=torch.nn.Identity(), dim=2, norm="none")
    >>> wrapped(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[2., 4.]]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        return self.norm(x + self.branch(x, *args), valid)
