"""The Transformer's own attention."""

import math

from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.components.attention._inner_products import InnerProducts


@register("attention", "scaled_dot_product", paper="arXiv:1706.03762, eq. 1", traits={"rotatable"})
class ScaledDotProduct(InnerProducts):
    """Inner products divided by the root of the head's width: ``softmax(q k^T / sqrt(c)) v``.

    Shapes: ``(b h q c), (b h k c), (b h k e) -> (b h q e)``. Options: none. Nothing is trained.

    Vaswani et al. 2017, section 3.2.1: inner products of ``c`` independent channels have a standard
    deviation of ``sqrt(c)``; dividing by it keeps the gradient of the softmax large. Computed by
    PyTorch's fused kernel or by plain products, whichever is faster.

    >>> import tfzoo, torch
    >>> q = torch.tensor([[[[1.0, 1.0, 1.0, 1.0]]]])
    >>> tfzoo.create("attention", "scaled_dot_product").scores(q, q)
    tensor([[[[2.]]]])
    """

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        return q, k, 1.0 / math.sqrt(q.shape[-1])
