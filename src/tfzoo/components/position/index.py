"""The position number itself."""

import torch
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.contracts import Position


@register("position", "index")
class Index(Position):
    """Add the position number times a trained vector: ``x + pos * direction``.

    Overrides ``embed``: ``(b n d), (b|1 n) -> (b n d)``; ``direction`` is ``(d)`` and starts from
    N(0, 0.02^2).

    A baseline from before sinusoids; its size grows with the position. It is multiplied by a vector
    because the next layer norm would cancel the same number on all channels.

    >>> import tfzoo, torch
    >>> position = tfzoo.create("position", "index", dim=2)
    >>> _ = position.direction.data.copy_(torch.tensor([1.0, -1.0]))
    >>> position.embed(torch.zeros(1, 3, 2), torch.arange(3)[None])[0, 2]
    tensor([ 2., -2.], grad_fn=<SelectBackward0>)
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.direction, std=0.02)

    def embed(self, x: Tensor, pos: Tensor, length: Tensor | None = None) -> Tensor:
        pos = pos[..., None].to(compute_dtype(x, self.direction))
        return x + (pos * self.direction).to(x.dtype)
