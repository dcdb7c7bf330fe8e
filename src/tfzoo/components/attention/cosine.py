"""Cosine similarity as score."""

import math

import torch
from torch import Tensor

from tfzoo.base.functional import at_least_fp32
from tfzoo.base.registry import register
from tfzoo.components.attention.trained_scale import TrainedScale

EPS = 1e-12
"""A vector that is shorter counts as 0."""


@register("attention", "cosine", paper="arXiv:2010.04245, eq. 4", traits={"rotatable"})
class Cosine(TrainedScale):
    """Cosine similarity as score: ``softmax(scale * cos(q, k)) v``, one trained scale per head.

    Shapes: ``(b h q c), (b h k c), (b h k e) -> (b h q e)``; ``scale`` is ``(h 1 1)``.

    Henry et al. 2020 start the scale at ``log2(L^2 - L)`` for sequences of length ``L``: 10 at
    about 32 tokens. A query or key of 0 has a cosine of 0 with all others, and no gradient.

    Options:
        scale: initial value of the trained scale of each head.

    Raises:
        BadOption: ``scale`` not over 0.

    >>> import tfzoo, torch
    >>> q, k = torch.tensor([[[[3.0, 0.0]]]]), torch.tensor([[[[5.0, 0.0]]]])
    >>> attention = tfzoo.create("attention", "cosine", heads=1)
    >>> attention.scores(q, k).item()
    10.0
    """

    def __init__(self, heads: int, *, scale: float = 10.0) -> None:
        super().__init__(heads, scale=scale)

    def prepare_keys(self, k: Tensor) -> Tensor:
        return direction(k)

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        return self.scale * direction(q), k, 1.0


def direction(x: Tensor) -> Tensor:
    """Unit length, measured in fp32 or better. A vector of 0 has no direction: it stays, and gets
    no gradient.
    """
    wide = at_least_fp32(x)
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    unit: Tensor = wide / length.masked_fill(length < EPS, math.inf)
    return unit.to(x.dtype)
