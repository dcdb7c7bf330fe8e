"""Inner products with a trained scale."""

import math

import torch
from torch import Tensor, nn

from tfzoo.base.registry import register
from tfzoo.base.values import check_range
from tfzoo.components.attention._inner_products import InnerProducts


@register("attention", "trained_scale", paper="arXiv:2112.13492", traits={"rotatable"})
class TrainedScale(InnerProducts):
    """Inner products with a trained temperature: ``softmax(scale q k^T / sqrt(c)) v``, one
    ``scale`` per head.

    Shapes: ``(b h q c), (b h k c), (b h k e) -> (b h q e)``; ``scale`` is ``(h 1 1)``.

    Lee et al. 2021 (learnable temperature scaling) start where the Transformer's fixed scale is,
    as this does by default.

    Options:
        scale: initial value of the trained scale of each head.

    Raises:
        BadOption: ``scale`` not over 0.

    >>> import tfzoo, torch
    >>> q = torch.tensor([[[[1.0, 1.0, 1.0, 1.0]]]])
    >>> attention = tfzoo.create("attention", {"name": "trained_scale", "scale": 3.0}, heads=1)
    >>> attention.scores(q, q).item()
    6.0
    """

    def __init__(self, heads: int, *, scale: float = 1.0) -> None:
        super().__init__()
        check_range(f"attention {self.entry.name!r}: scale", scale, gt=0)
        self.initial_scale = scale
        self.scale = nn.Parameter(torch.empty(heads, 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.scale, self.initial_scale)

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        return self.scale * q, k, 1.0 / math.sqrt(q.shape[-1])
