"""A norm before and a norm after the sublayer."""

from typing import Any

from torch import Tensor, nn

from tfzoo.base.registry import NormSpec, create, register
from tfzoo.contracts import Norm, Residual


@register("residual", "sandwich", paper="arXiv:2408.00118, section 2", traits={"final_norm"})
class Sandwich(Residual):
    """One norm comes before the sublayer and one after it: ``x + norm_2(f(norm_1(x)))``.

    Shapes: ``(b n d) -> (b n d)``. Options: none. A stack ends in a norm of its own. Gemma 2's;
    the second norm bounds what a sublayer adds (Ding et al. 2021, arXiv:2105.13290, section 2.4).

    >>> import tfzoo, torch
    >>> f = torch.nn.Identity()
    >>> wrapped = tfzoo.create("residual", "sandwich", inner=f, dim=2, norm="none")
    >>> wrapped(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[2., 4.]]])
    """

    def __init__(self, inner: nn.Module, dropout: float, dim: int, norm: NormSpec) -> None:
        super().__init__(inner, dropout, dim, norm)
        self.output_norm: Norm = create("norm", norm, dim=dim)

    def forward(self, x: Tensor, valid: Tensor | None = None, *args: Any) -> Tensor:
        return x + self.output_norm(self.branch(self.norm(x, valid), *args), valid)
