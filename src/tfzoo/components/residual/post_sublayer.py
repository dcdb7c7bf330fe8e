"""The norm of what the sublayer adds."""

from typing import Any

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Residual


@register("residual", "post_sublayer", paper="arXiv:2501.00656, section 2.1", traits={"final_norm"})
class PostSublayer(Residual):
    """The norm comes after the sublayer, inside the residual branch: ``x + norm(f(x))``.

    Shapes: ``(b n d) -> (b n d)``. Options: none. A stack ends in a norm of its own. OLMo 2's,
    and before it Swin v2's (Liu et al. 2021, arXiv:2111.09883, section 3.2).

    >>> import tfzoo, torch
    >>> f = torch.nn.Identity()
    >>> wrapped = tfzoo.create("residual", "post_sublayer", inner=f, dim=2, norm="none")
    >>> wrapped(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[2., 4.]]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        return x + self.norm(self.branch(x, *args), valid)
