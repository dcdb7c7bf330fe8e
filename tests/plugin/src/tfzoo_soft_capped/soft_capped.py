"""Scores with a soft cap."""

import math

import torch
from torch import Tensor

from tfzoo import register
from tfzoo.contracts import Attention
from tfzoo.errors import BadOption


@register("attention", "soft_capped", paper="arXiv:2408.00118, section 2", traits={"rotatable"})
class SoftCapped(Attention):
    """Scaled products with a soft cap: ``softmax(cap * tanh(q k^T / (cap * sqrt(c)))) v``.

    Options:
        cap: no score is larger.
    """

    def __init__(self, *, cap: float = 50.0) -> None:
        super().__init__()
        if not 0 < cap < math.inf:
            raise BadOption(f"cap={cap} must be a finite number over 0")
        self.cap = cap

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """``(b h q c), (b h k c) -> (b h q k)``"""
        return self.cap * torch.tanh(q @ k.mT / (self.cap * math.sqrt(q.shape[-1])))
