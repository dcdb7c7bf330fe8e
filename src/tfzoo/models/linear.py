"""A linear layer with Glorot initialisation."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


class Linear(nn.Linear):
    """``x W^T + b``; ``W`` is initialised as in Glorot and Bengio 2010, eq. 16, ``b`` as 0."""

    __call__: Callable[..., Tensor]  # what torch leaves open

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
