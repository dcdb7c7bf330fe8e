"""Who may look at whom, as one small value that a fast kernel can read without a matrix ever being
built.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LANES = 16  # fp32 numbers in one AVX-512 register


class Mask:
    """``causal``, the valid keys ``(b k)`` or None when all are real, and the place of the first
    query among the keys.

    A cached step starts at ``start``: query ``i`` stands at ``start + i`` and, where ``causal``,
    sees keys ``0 .. start + i``.
    """

    def __init__(self, causal: bool = False, keys: Tensor | None = None, start: int = 0) -> None:
        self.causal = causal
        self.keys = keys
        self.start = start
        self._dense: tuple[Tensor | None, Tensor | None] | None = None
        self._added: tuple[Tensor | None, Tensor | None] | None = None

    def dense(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """True where a query may look at a key: ``(b|1 1 q|1 k)``, or None where every query sees
        every key.
        """
        return self._parts(q, k, device)[0]

    def blind(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """True at queries that may look at nothing: ``(b 1 q|1 1)``, or None where no query can be
        so.
        """
        return self._parts(q, k, device)[1]

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the visible keys, ``(b h q k)``; zeros, with finite gradients, where none is
        visible.
        """
        q, k = scores.shape[-2:]
        dense, blind = self._parts(q, k, scores.device)
        if dense is None:
            return softmax(scores)
        if blind is None:
            return softmax(scores.masked_fill(~dense, float("-inf")))
        # A blind query looks at everything for the moment: a softmax over nothing has no gradient.
        return softmax(scores.masked_fill(~(dense | blind), float("-inf"))).masked_fill(blind, 0.0)

    def added(
        self, q: int, k: int, width: int, device: torch.device
    ) -> tuple[Tensor | None, Tensor | None]:
        """What a kernel adds to scores over ``width >= k`` keys, 0 or -inf, and what it multiplies
        the weights of each query by, 1 or 0.

        ``(b|1 1 q|1 width)`` and ``(b 1 q|1 1)``, in fp32, or None where nothing changes. Made once
        a stack, as the dense mask is.
        """
        if self._added is None:
            dense, blind = self._parts(q, k, device)
            visible = dense if dense is None or blind is None else dense | blind
            if visible is None and width > k:
                visible = torch.ones(1, 1, 1, k, dtype=torch.bool, device=device)
            added = None
            if visible is not None:
                added = torch.full((*visible.shape[:-1], width), float("-inf"), device=device)
                added[..., :k].masked_fill_(visible, 0.0)
            self._added = added, None if blind is None else (~blind).float()
        return self._added

    def _parts(self, q: int, k: int, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        if self._dense is None:  # once a stack: the layers share one mask
            keys = None if self.keys is None else self.keys[:, None, None, :]
            triangle = None
            if self.causal and self.start + 1 < k:  # the last query alone sees all
                triangle = (
                    torch.arange(k, device=device)
                    <= self.start + torch.arange(q, device=device)[:, None]
                )
            dense = triangle if keys is None else keys if triangle is None else keys & triangle
            dense = dense if dense is None or dense.dim() == 4 else dense[None, None]
            self._dense = (
                dense,
                None if keys is None or dense is None else ~dense.any(-1, keepdim=True),
            )
        return self._dense


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last axis. A CPU takes rows of under 16 numbers one by one, so such rows are
    made longer.
    """
    k = scores.shape[-1]
    if k >= LANES or scores.device.type != "cpu" or torch.compiler.is_compiling():
        return scores.softmax(-1)
    return F.pad(scores, (0, LANES - k), value=float("-inf")).softmax(-1)[..., :k]
