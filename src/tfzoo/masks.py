"""Which query may look at which key."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.errors import BadOption

LANES = 16  # fp32 numbers in one AVX-512 register

Pair = tuple[Tensor | None, Tensor | None]


class Mask:
    """A causal mask, a padding mask, both or neither.

    Query ``i`` may look at key ``j`` of text ``b`` where ``keys[b, j]`` is True and, if ``causal``,
    ``j <= start + i``. A fast kernel reads the three attributes; the matrix ``(b|1 1 q|1 k)`` is
    built only when :meth:`boolean` or :meth:`additive` is called. Do not change a mask: build
    another one.

    Args:
        causal: hide the keys that come later.
        keys: ``(b k)``, boolean, False at padding; None when no key is padding.
        start: position of the first query among the keys. None aligns the last query with the last
            key: ``start = k - q``.

    Raises:
        BadOption: ``keys`` is not boolean or not of ``k`` keys; ``start`` is under 0.

    >>> Mask(causal=True).boolean(2, 3, torch.device("cpu"))[0, 0].int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """

    def __init__(
        self, causal: bool = False, keys: Tensor | None = None, start: int | None = None
    ) -> None:
        if keys is not None and keys.dtype != torch.bool:
            raise BadOption(
                f"Mask: keys must be boolean, True at real tokens, not {keys.dtype}: pass keys.bool()"
            )
        if start is not None and start < 0:
            raise BadOption(f"Mask: start must be 0 or more, not {start}")
        self.causal = causal
        self.keys = keys
        self.start = start
        self._latest: tuple[object, dict[str, Pair]] = (None, {})

    def first_query(self, q: int, k: int) -> int:
        """The position of the first query among the keys; under 0 where queries outnumber keys."""
        return k - q if self.start is None else self.start

    def boolean(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """True where a query may look at a key: ``(b|1 1 q|1 k)``; None where it may everywhere."""
        return self._matrices(q, k, device)[0]

    def fully_masked(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """True at queries that may look at no key: ``(b|1 1 q|1 1)``; None where none can be so."""
        return self._matrices(q, k, device)[1]

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the visible keys, ``(b h q k)``; zeros, with finite gradients, where none is
        visible.
        """
        q, k = scores.shape[-2:]
        visible, empty = self._matrices(q, k, scores.device)
        if visible is None:
            return softmax(scores)
        if empty is None:
            return softmax(scores.masked_fill(~visible, float("-inf")))
        # A softmax over nothing is NaN, also in the backward: such a row sees all keys until then.
        return softmax(scores.masked_fill(~(visible | empty), float("-inf"))).masked_fill(
            empty, 0.0
        )

    def additive(self, q: int, k: int, width: int, device: torch.device) -> Pair:
        """What a kernel adds to scores over ``width >= k`` keys, 0 or -inf, and what it multiplies
        the weights of each query by, 1 or 0.

        ``(b|1 1 q|1 width)`` and ``(b|1 1 q|1 1)``, in fp32, or None where nothing changes.
        """
        cache = self._cache((q, k, device))
        if "added" not in cache:
            visible, empty = self._matrices(q, k, device)
            if visible is not None and empty is not None:
                visible = visible | empty
            if visible is None and width > k:
                visible = torch.ones(1, 1, 1, k, dtype=torch.bool, device=device)
            added = None
            if visible is not None:
                added = torch.full((*visible.shape[:-1], width), float("-inf"), device=device)
                added[..., :k].masked_fill_(visible, 0.0)
            cache["added"] = added, None if empty is None else (~empty).float()
        return cache["added"]

    def _matrices(self, q: int, k: int, device: torch.device) -> Pair:
        """:meth:`boolean` and :meth:`fully_masked`."""
        cache = self._cache((q, k, device))
        if "boolean" not in cache:
            cache["boolean"] = self._build(q, k, device)
        return cache["boolean"]

    def _cache(self, call: tuple[int, int, torch.device]) -> dict[str, Pair]:
        """The matrices of the latest lengths, which all layers of a stack share."""
        if torch.compiler.is_compiling():  # a compiled layer must not depend on an earlier one
            return {}
        key = (*call, torch.is_inference_mode_enabled())  # its tensors cannot be trained with
        if self._latest[0] != key:
            self._latest = key, {}
        return self._latest[1]

    def _build(self, q: int, k: int, device: torch.device) -> Pair:
        if self.keys is not None and self.keys.shape[-1] != k:
            raise BadOption(f"Mask: keys is of {self.keys.shape[-1]} keys, but there are {k}")
        keys = None if self.keys is None else self.keys[:, None, None, :]
        first = self.first_query(q, k)
        visible = keys
        if self.causal and first + 1 < k:  # else even the first query sees all keys
            place = torch.arange(first, first + q, device=device)[:, None]
            triangle = (torch.arange(k, device=device) <= place)[None, None]
            visible = triangle if keys is None else keys & triangle
        if visible is None or (keys is None and first >= 0):
            return visible, None
        return visible, ~visible.any(-1, keepdim=True)


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last axis. A CPU takes rows of under 16 numbers one by one, so such rows are
    made longer.
    """
    k = scores.shape[-1]
    if torch.compiler.is_compiling() or scores.device.type != "cpu" or k >= LANES:
        return scores.softmax(-1)
    return F.pad(scores, (0, LANES - k), value=float("-inf")).softmax(-1)[..., :k]
