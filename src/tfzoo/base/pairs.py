"""A number or a truth for each pair of a query and a key, computed where it is read."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Pairs:
    """A function of the indices of a text, a head, a query and a key, as FlexAttention takes it, in
    place of a tensor ``(b|1 h|1 q k)``: ``function(b, h, q, k)``.

    A fused kernel computes it for the pairs that it works on; :meth:`dense` computes all of them.
    The function indexes tensors and calculates, without asking for a value.

    Args:
        function: from four tensors of indices, which broadcast, to a number or a truth.
        rows: the number of texts; 1 where it is the same for all, and ``b`` is then 0.
        heads: the number of heads; 1 where it is the same for all, and ``h`` is then 0.

    >>> text = torch.tensor([[0, 0, 1]])
    >>> same = Pairs(lambda b, h, q, k: text[b, q] == text[b, k])
    >>> same.dense(3, 3, text.device)[0, 0].int()
    tensor([[1, 1, 0],
            [1, 1, 0],
            [0, 0, 1]], dtype=torch.int32)
    """

    def __init__(
        self, function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], rows: int = 1,
        heads: int = 1,
    ) -> None:  # fmt: skip
        self.function, self.rows, self.heads = function, rows, heads

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """The value at these indices of any text and head."""
        b = b if self.rows > 1 else torch.zeros_like(b)
        return self.function(b, h if self.heads > 1 else torch.zeros_like(h), q, k)

    def __and__(self, other: Pairs | Tensor) -> Pairs:
        """True where both are."""
        other = pairs(other)
        rows, heads = max(self.rows, other.rows), max(self.heads, other.heads)
        return Pairs(lambda *index: self(*index) & other(*index), rows, heads)

    def select(self, rows: Tensor) -> Pairs:
        """Those of these texts, by index: ``(r)``."""
        if self.rows == 1:
            return self
        return Pairs(lambda b, h, q, k: self(rows[b], h, q, k), len(rows), self.heads)

    def dense(self, q: int, k: int, device: torch.device) -> Tensor:
        """All values: ``(b|1 h|1 q k)``."""
        shape = self.rows, self.heads, q, k
        b, h, i, j = (torch.arange(size, device=device) for size in shape)
        found = self.function(b[:, None, None, None], h[:, None, None], i[:, None], j)
        return found.broadcast_to(shape)


def pairs(x: Pairs | Tensor) -> Pairs:
    """Of a tensor that broadcasts to ``(b h q k)``, the function that reads it."""
    if isinstance(x, Pairs):
        return x
    rows, heads, q, k = x.shape

    def read(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return x[b, h, i if q > 1 else torch.zeros_like(i), j if k > 1 else torch.zeros_like(j)]

    return Pairs(read, rows, heads)


def dense(x: Pairs | Tensor | None, q: int, k: int, device: torch.device) -> Tensor | None:
    """As a tensor that broadcasts to ``(b h q k)``."""
    return x.dense(q, k, device) if isinstance(x, Pairs) else x
