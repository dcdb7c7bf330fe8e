"""Who may look at whom, as one small value that a fast kernel can read without a matrix ever being built."""

from __future__ import annotations

import torch
from torch import Tensor


class Mask:
    """``causal``, the valid keys ``(b k)`` or None when all are real, and the place of the first query among the keys.

    A cached step starts at ``start``: query ``i`` stands at ``start + i`` and, where ``causal``, sees keys ``0 .. start + i``.
    """

    def __init__(self, causal: bool = False, keys: Tensor | None = None, start: int = 0) -> None:
        self.causal = causal
        self.keys = keys
        self.start = start
        self._dense: tuple[Tensor | None, Tensor | None] | None = None

    def dense(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """True where a query may look at a key: ``(b|1 1 q|1 k)``, or None where every query sees every key."""
        return self._parts(q, k, device)[0]

    def blind(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """True at queries that may look at nothing: ``(b 1 q|1 1)``, or None where no query can be so."""
        return self._parts(q, k, device)[1]

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the visible keys, ``(b h q k)``; zeros, with finite gradients, where none is visible."""
        q, k = scores.shape[-2:]
        dense, blind = self._parts(q, k, scores.device)
        if dense is None:
            return scores.softmax(-1)
        if blind is None:
            return scores.masked_fill(~dense, float("-inf")).softmax(-1)
        # A blind query looks at everything for the moment: a softmax over nothing has no gradient.
        return scores.masked_fill(~(dense | blind), float("-inf")).softmax(-1).masked_fill(blind, 0.0)

    def _parts(self, q: int, k: int, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        if self._dense is None:  # once a stack: the layers share one mask
            keys = None if self.keys is None else self.keys[:, None, None, :]
            triangle = None
            if self.causal and self.start + 1 < k:  # the last query alone sees all
                triangle = torch.arange(k, device=device) <= self.start + torch.arange(q, device=device)[:, None]
            dense = triangle if keys is None else keys if triangle is None else keys & triangle
            dense = dense if dense is None or dense.dim() == 4 else dense[None, None]
            self._dense = dense, None if keys is None or dense is None else ~dense.any(-1, keepdim=True)
        return self._dense
