"""The first token of a sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from tfzoo.base.registry import register
from tfzoo.contracts import Pooling
from tfzoo.pooling._token import at_least_one, token_at


@register(
    "pooling", "first", paper="arXiv:1810.04805, section 3", traits={"ordered", "reads_first"}
)
class First(Pooling):
    """The first real token: ``x_1``.

    Shapes: ``(b n d), (b n) -> (b d)``; padding may stand on either side. A sequence of no token
    gives zeros. Options: none.

    >>> import torch
    >>> from tfzoo.base.registry import create
    >>> x, valid = torch.tensor([[[99.0], [1.0], [3.0]]]), torch.tensor([[False, True, True]])
    >>> create("pooling", "first")(x, valid)
    tensor([[1.]])
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        x, valid = at_least_one(x, valid)
        if valid is None:
            return x[:, 0]
        place = valid.to(torch.uint8).argmax(1)  # of the first True
        return token_at(x, valid, place)
