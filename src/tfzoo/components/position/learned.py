"""A trained vector per position."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tfzoo.base.functional import at_least_fp32
from tfzoo.base.registry import register
from tfzoo.contracts import Position
from tfzoo.errors import BadOption


@register("position", "learned", paper="arXiv:1705.03122, section 3.1", traits={"bounded"})
class Learned(Position):
    """Add a trained vector for each position: ``x + table[pos]``.

    Overrides ``embed``: ``(b n d), (b|1 n) -> (b n d)``; ``table`` is ``(max_length d)``, and no
    position may reach ``max_length``: ``BadOption`` on a CPU, PyTorch's error on a GPU.

    Gehring et al. 2017, section 3.1. The table starts from N(0, 0.1^2) (section 3.5).

    >>> import tfzoo, torch
    >>> position = tfzoo.create("position", "learned", dim=4, max_length=16)
    >>> position.embed(torch.zeros(2, 3, 4), torch.arange(3)[None]).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, dim: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_length, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=0.1)

    def embed(self, x: Tensor, pos: Tensor, length: Tensor | None = None) -> Tensor:
        try:
            vectors = F.embedding(pos, at_least_fp32(self.table))
        except IndexError:
            raise BadOption(
                f"positions from {int(pos.min())} to {int(pos.max())}, but position 'learned' has "
                f"0 to {len(self.table) - 1}: raise max_length"
            ) from None
        return x + vectors.to(x.dtype)
