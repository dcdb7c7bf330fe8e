"""Weights that fall with a power of distance."""

import torch
from torch import Tensor, nn

from tfzoo import register
from tfzoo.contracts import Position


@register("position", "power_law", traits={"bias_of_distance"})
class PowerLaw(Position):
    """Subtract a logarithm of distance: ``scores - power log(1 + |k_pos - q_pos|)``, per head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.empty(heads, 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.power)

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """``(b|1 q), (b|1 k) -> (b|1 h q k)``"""
        distance = (k_pos[:, None, None, :] - q_pos[:, None, :, None]).abs()
        return -self.power * distance.to(self.power.dtype).log1p()
