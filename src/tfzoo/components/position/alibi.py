"""A penalty that grows with distance."""

import torch
from torch import Tensor

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.components.position._distances import distances
from tfzoo.contracts import Position


@register("position", "alibi", paper="arXiv:2108.12409, section 3", traits={"bias_of_distance"})
class ALiBi(Position):
    """Subtract a penalty that grows with distance: ``scores - slope * |k_pos - q_pos|``, a fixed
    slope per head.

    Overrides ``bias``: ``(b|1 q), (b|1 k) -> (b|1 h q k)``. Nothing is trained; there is no
    longest length.

    Press et al. 2022, section 3: ``slope`` of head ``i`` is ``2^(-8i/h)``; where ``h`` is no power
    of two, the slopes of the next lower power and then every other one of the next higher, as in
    their code. In an encoder both directions have the same penalty.

    >>> import tfzoo, torch
    >>> position = tfzoo.create("position", "alibi", heads=8)
    >>> position.bias(torch.tensor([[2]]), torch.arange(3)[None])[0, 0]
    tensor([[-1.0000, -0.5000, -0.0000]])
    """

    precision: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        # Empty; tells the dtype that the module was moved to.
        self.register_buffer("precision", torch.empty(0), persistent=False)

    def slopes(self, device: torch.device) -> Tensor:
        """One positive number per head, ``(h)``."""
        power = 1 << self.heads.bit_length() - 1
        head = torch.arange(self.heads, dtype=compute_dtype(self.precision), device=device)
        return torch.exp2(
            torch.where(head < power, -8.0 * (head + 1), -4.0 * (2 * (head - power) + 1)) / power
        )

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        distance = distances(q_pos, k_pos).abs()
        return -self.slopes(q_pos.device)[:, None, None] * distance[:, None]
