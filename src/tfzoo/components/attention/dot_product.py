"""Unscaled inner products as scores."""

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.attention._inner_products import InnerProducts


@register(
    "attention", "dot_product", paper="arXiv:1508.04025, section 3.1 (dot)", traits={"rotatable"}
)
class DotProduct(InnerProducts):
    """Unscaled inner products as scores: ``softmax(q k^T) v``.

    Shapes: ``(b h q c), (b h k c), (b h k e) -> (b h q e)``. Options: none. Nothing is trained.

    Luong et al. 2015 call this score "dot". It grows with the width of a head, which is why Vaswani
    et al. 2017 (section 3.2.1) added a scale. No initialisation compensates for it here.

    >>> import tfzoo, torch
    >>> q = torch.tensor([[[[1.0, 2.0]]]])
    >>> tfzoo.create("attention", "dot_product").scores(q, q)
    tensor([[[[5.]]]])
    """

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        return q, k, 1.0
