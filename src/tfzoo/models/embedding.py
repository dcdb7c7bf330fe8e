"""Token embeddings."""

from __future__ import annotations

import math

from torch import Tensor, nn


class Embedding(nn.Embedding):
    """One vector per token, times ``sqrt(dim)`` if ``scale`` (Vaswani et al. 2017, section 3.4).

    Initialised from ``N(0, 1/dim)``, so that the logits of a tied output layer initially have
    variance 1 if the components of the hidden states have variance 1.
    """

    def __init__(self, vocab_size: int, dim: int, *, scale: bool = True) -> None:
        super().__init__(vocab_size, dim)
        self.factor = math.sqrt(dim) if scale else 1.0

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """``(b n) -> (b n d)``"""
        x = super().forward(ids)
        return x if self.factor == 1.0 else x * self.factor
