"""The position relative to the length of the sequence."""

import torch
from torch import Tensor, nn

from tfzoo.base.functional import compute_dtype
from tfzoo.base.registry import register
from tfzoo.contracts import Position
from tfzoo.errors import BadOption


@register("position", "unit_interval", traits={"needs_length"})
class UnitInterval(Position):
    """Add the position relative to the length of the sequence, times a trained vector: ``x + (pos /
    length) * direction``.

    Overrides ``embed``: ``(b n d), (b|1 n), (b 1) -> (b n d)``; ``direction`` is ``(d)`` and starts
    from N(0, 1/d).

    A baseline from before sinusoids. The step between neighbours depends on the length, so a
    decoder cannot use it: it does not know the length yet. It is multiplied by a vector because the
    next layer norm would cancel the same number on all channels.

    Raises:
        BadOption: ``embed`` is called without ``length``.

    >>> import tfzoo, torch
    >>> position = tfzoo.create("position", "unit_interval", dim=1)
    >>> _ = position.direction.data.fill_(1.0)
    >>> x, pos, length = torch.zeros(1, 4, 1), torch.arange(4)[None], torch.tensor([[4]])
    >>> position.embed(x, pos, length).detach().flatten()
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.direction, std=self.direction.shape[0] ** -0.5)

    def embed(self, x: Tensor, pos: Tensor, length: Tensor | None = None) -> Tensor:
        if length is None:
            raise BadOption(
                "position 'unit_interval' divides by the length of the sequence: "
                "embed(x, pos, length) needs all three"
            )
        part = pos.to(compute_dtype(x, self.direction)) / length.clamp(min=1)
        return x + (part[..., None] * self.direction).to(x.dtype)
