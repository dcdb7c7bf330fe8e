"""Inner products through a trained matrix (Luong's "general")."""

import torch
from torch import Tensor, nn

from tfzoo.base.registry import register
from tfzoo.components.attention._inner_products import InnerProducts


@register("attention", "bilinear", paper="arXiv:1508.04025, section 3.1 (general)")
class Bilinear(InnerProducts):
    """A trained matrix between query and key: ``softmax(q^T W k) v``, one ``W`` per head.

    Shapes: ``(b h q c), (b h k c), (b h k e) -> (b h q e)``; ``W`` is ``(h c c)``. Options: none.

    Luong et al. 2015 call this score "general". It has no scale. They start all parameters uniform
    in [-0.1, 0.1] (section 4.1), and so does ``W``.

    >>> import tfzoo, torch
    >>> attention = tfzoo.create("attention", "bilinear", heads=1, head_dim=2)
    >>> _ = attention.weight.data.copy_(torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]))
    >>> q, k = torch.tensor([[[[3.0, 0.0]]]]), torch.tensor([[[[0.0, 5.0]]]])
    >>> attention.scores(q, k).item()
    15.0
    """

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, head_dim, head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.weight, -0.1, 0.1)

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        return q @ self.weight, k, 1.0
