"""A penalty that grows with distance, as fast as each head learns."""

import torch
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.components.position._distances import distances
from tfzoo.contracts import Position


@register("position", "kerple", paper="arXiv:2205.09921, section 4", traits={"bias_of_distance"})
class Kerple(Position):
    """Subtract a trained penalty that grows with the logarithm of distance: ``scores - r1 log(1 +
    r2 |k_pos - q_pos|)``, ``r1`` and ``r2`` per head.

    Overrides ``bias``: ``(b|1 q), (b|1 k) -> (b|1 h q k)``. There is no longest length.

    Chi et al. 2022. Both numbers stay positive: trained are ``raw_r1`` and ``raw_r2``, ``(h)``,
    their logarithms. They start uniform, ``r1`` up to 2 and ``r2`` up to 1, as in the authors'
    code, which limits them from below by 0.01. In an encoder both directions have the same penalty.

    >>> import tfzoo, torch
    >>> position = tfzoo.create("position", "kerple", heads=1)
    >>> position.raw_r1.data.zero_(), position.raw_r2.data.zero_()  # r1 = r2 = 1
    (tensor([0.]), tensor([0.]))
    >>> position.bias(torch.tensor([[2]]), torch.arange(3)[None]).detach()[0, 0]
    tensor([[-1.0986, -0.6931, -0.0000]])
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.raw_r1 = nn.Parameter(torch.empty(heads))
        self.raw_r2 = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.raw_r1.uniform_(0.01, 2.0).log_()
        self.raw_r2.uniform_(0.01, 1.0).log_()

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        dtype = compute_dtype(self.raw_r1)
        r1, r2 = (raw.to(dtype)[:, None, None] for raw in (self.raw_r1, self.raw_r2))
        distance = distances(q_pos, k_pos).abs()[:, None].to(dtype)
        return -r1.exp() * torch.log1p(r2.exp() * distance)
