"""Which query may look at which key."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import inf
from operator import and_
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.errors import BadOption

T = TypeVar("T")
LANES = 16  # fp32 numbers in one AVX-512 register


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
        self,
        function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
        rows: int = 1,
        heads: int = 1,
    ) -> None:
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


def check_type(name: str, mask: object) -> None:
    """Check that an argument is a mask."""
    if not isinstance(mask, Mask):
        raise BadOption(
            f"{name} must be a tfzoo.Mask, not {type(mask).__name__}: Mask(keys=...) of (b k), "
            "True at real tokens; Mask(allowed=...) of (b|1 1|h q k), True where a query may look; "
            "Mask() hides nothing"
        )


def keys_of(mask: Mask | None) -> Tensor | None:
    """Which tokens are real: ``(b k)``; None: all are."""
    if mask is None:
        return None
    check_type("mask", mask)
    return mask.keys


class Mask:
    """A causal mask, a padding mask, any other mask, or several of them together.

    Query ``i`` may look at key ``j`` of text ``b`` where ``keys[b, j]`` and ``allowed[b, :, i, j]``
    are True and, if ``causal``, ``j <= start + i``. A fast kernel reads the attributes; the matrix
    ``(b|1 h|1 q|1 k)`` is built only when :meth:`boolean` is called. Do not change a mask: build
    another one.

    Args:
        causal: hide the keys that come later.
        keys: ``(b k)``, boolean, False at padding; None when no key is padding.
        start: position of the first query among the keys. None aligns the last query with the last
            key: ``start = k - q``.
        allowed: ``(b|1 1|h q k)``, boolean, True where a query may look at a key: texts packed into
            one row, a prefix that is seen as a whole, a local window. None allows everything. As
            :class:`~tfzoo.masks.Pairs`, a function of indices, no such tensor is needed where
            a kernel computes what it reads.

    Raises:
        BadOption: ``keys`` or ``allowed`` is not boolean, or not of the shape of a call.

    >>> Mask(causal=True).boolean(2, 3, torch.device("cpu"))[0, 0].int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)

    Three texts packed into one row: a token sees its own text, up to itself.

    >>> text = torch.tensor([0, 0, 1, 2])
    >>> packed = Mask(causal=True, allowed=(text[:, None] == text)[None, None])
    >>> packed.boolean(4, 4, torch.device("cpu"))[0, 0].int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 0, 1, 0],
            [0, 0, 0, 1]], dtype=torch.int32)
    """

    on_right = False
    """All padding is on the right, so that the positions are the same in all texts."""

    def __init__(
        self,
        causal: bool = False,
        keys: Tensor | None = None,
        start: int | None = None,
        allowed: Tensor | Pairs | None = None,
    ) -> None:
        for name, mask, meaning in (
            ("keys", keys, "at real tokens"),
            ("allowed", allowed, "where a query may look at a key"),
        ):
            kind = getattr(mask, "dtype", type(mask).__name__)
            if not (mask is None or isinstance(mask, Pairs) or kind == torch.bool):
                raise BadOption(f"Mask: {name} must be boolean, True {meaning}, not {kind}")
        if not isinstance(causal, bool):
            raise BadOption("Mask: causal is True or False: a tensor is keys=... or allowed=...")
        if keys is not None and keys.dim() != 2:
            raise BadOption(
                f"Mask: keys must be (b k), a row for each text, not {tuple(keys.shape)}"
            )
        if isinstance(allowed, Tensor) and allowed.dim() != 4:
            raise BadOption(
                "Mask: allowed must be (b q k) with an axis of heads, (b|1 1|h q k), not "
                f"{tuple(allowed.shape)}: pass allowed[:, None], or allowed[None, None] if (q k)"
            )
        self.causal = causal
        self.keys = keys
        self.start = start
        self.allowed = allowed
        self._latest: dict[str, tuple[list[Any], Any]] = {}

    @classmethod
    def right(
        cls,
        lengths: Tensor | None,
        k: int,
        causal: bool = False,
        allowed: Tensor | Pairs | None = None,
    ) -> Mask:
        """The mask of texts of ``lengths`` ``(b)`` tokens, each padded on the right to ``k``; None:
        no text is padded. That all padding is on the right saves work.

        >>> Mask.right(torch.tensor([3, 1]), 3).keys.int()
        tensor([[1, 1, 1],
                [1, 0, 0]], dtype=torch.int32)
        """
        if lengths is None:
            return cls(causal, allowed=allowed)
        lengths = torch.as_tensor(lengths)
        keys = torch.arange(k, device=lengths.device) < lengths[:, None]
        mask = cls(causal, keys, allowed=allowed)
        mask.on_right = True
        return mask

    def check_fits(self, b: int, h: int) -> None:
        """Check that it is of 1 text or ``b``, and of 1 head or ``h``."""
        for name, one in (("keys", self.keys), ("allowed", self.allowed)):
            if isinstance(one, Tensor):
                sizes = one.shape[: one.dim() // 2]
                if any(size not in (1, most) for size, most in zip(sizes, (b, h), strict=False)):
                    raise BadOption(
                        f"Mask: {name} is {tuple(one.shape)}, but there are {b} texts of {h} heads"
                    )

    def first_query(self, q: int, k: int) -> int:
        """The position of the first query among the keys; under 0 where queries outnumber keys."""
        return k - q if self.start is None else self.start

    def select(self, rows: Tensor) -> Mask:
        """The mask of these texts of a batch, by index: ``(r)``."""
        keys, allowed = self.keys, self.allowed
        if isinstance(allowed, Pairs):
            allowed = allowed.select(rows)
        elif allowed is not None and allowed.shape[0] > 1:
            allowed = allowed[rows]
        mask = Mask(self.causal, None if keys is None else keys[rows], self.start, allowed)
        mask.on_right = self.on_right
        return mask

    def softmax(
        self, scores: Tensor, bias: Tensor | None = None, *, finite: bool = False
    ) -> Tensor:
        """Softmax of ``scores + bias`` over the visible keys: ``(b h q k)``.

        Zeros, with finite gradients, where no key is visible or their scores or biases are -inf.
        ``finite`` promises that no score is, which saves a look at all of them.
        """
        q, k = scores.shape[-2:]
        # A softmax of nothing but -inf is NaN, and so is its gradient.
        if finite and bias is None:
            empty = self.fully_masked(q, k, scores.device)
            shown = self.shown(q, k, scores.device)
            if shown is not None:
                scores = scores.masked_fill(~shown, -inf)
        else:
            visible = self.boolean(q, k, scores.device)
            if bias is not None:
                scores = scores + bias
            if visible is not None:
                scores = scores.masked_fill(~visible, -inf)
            empty = largest(scores) == -inf
            scores = scores.masked_fill(empty, 0.0)
        weights = softmax(scores)
        return weights if empty is None else weights.masked_fill(empty, 0.0)

    def boolean(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """True where a query may look at a key: ``(b|1 h|1 q|1 k)``; None where it may
        everywhere.
        """

        def build() -> Tensor | None:
            if self.keys is not None and self.keys.shape[-1] != k:
                raise BadOption(f"Mask: keys is of {self.keys.shape[-1]} keys, but there are {k}")
            allowed = dense(self.allowed, q, k, device)
            if allowed is not None and allowed.shape[-2:] != (q, k):
                raise BadOption(
                    f"Mask: allowed is of {allowed.shape[-2]} queries and "
                    f"{allowed.shape[-1]} keys, but there are {q} and {k}"
                )
            visible = None if self.keys is None else self.keys[:, None, None, :]
            if allowed is not None:
                visible = allowed if visible is None else visible & allowed
            first = self.first_query(q, k)
            if not self.causal or first + 1 >= k:  # then even the first query sees all keys
                return visible
            place = torch.arange(first, first + q, device=device)[:, None]
            triangle = (torch.arange(k, device=device) <= place)[None, None]
            return triangle if visible is None else visible & triangle

        return self.once(("boolean", q, k, device), build)

    def pairs(self, q: int, k: int) -> Pairs | None:
        """:meth:`boolean` as a function of indices, for a kernel that computes what it reads."""
        keys, first = self.keys, self.first_query(q, k)
        parts = [] if self.allowed is None else [pairs(self.allowed)]
        if keys is not None:
            parts.append(Pairs(lambda b, h, i, j: keys[b, j], len(keys)))
        if self.causal and first + 1 < k:
            parts.append(Pairs(lambda b, h, i, j: j <= i + first))
        return reduce(and_, parts) if parts else None

    def fully_masked(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """True at queries that may look at no key: ``(b|1 h|1 q|1 1)``; None where none can be
        so.
        """

        def build() -> Tensor | None:
            visible = self.boolean(q, k, device)
            only_later = self.keys is None and self.allowed is None and self.first_query(q, k) >= 0
            if visible is None or only_later:  # then each query may look at a key
                return None
            return ~visible.any(-1, keepdim=True)

        return self.once(("fully masked", q, k, device), build)

    def shown(self, q: int, k: int, device: torch.device) -> Tensor | None:
        """:meth:`boolean`, but True everywhere for a query that may look at no key."""

        def build() -> Tensor | None:
            visible, empty = self.boolean(q, k, device), self.fully_masked(q, k, device)
            return visible if visible is None or empty is None else visible | empty

        return self.once(("shown", q, k, device), build)

    def added(self, q: int, k: int, dtype: torch.dtype, device: torch.device) -> Tensor | None:
        """:meth:`shown` as what is added to scores: 0 where it is True, -inf elsewhere."""

        def build() -> Tensor | None:
            if (shown := self.shown(q, k, device)) is None:
                return None
            return torch.zeros_like(shown, dtype=dtype).masked_fill(~shown, -inf)

        return self.once(("added", q, k, dtype, device), build)

    def once(self, call: tuple[Any, ...], build: Callable[[], T]) -> T:
        """What was built for the same call last time, so that the layers of a stack share it."""
        if torch.compiler.is_compiling():  # a compiled layer must not depend on an earlier one
            return build()
        name, *rest = *call, torch.is_inference_mode_enabled()  # no autograd of its tensors
        if name not in self._latest or self._latest[name][0] != rest:
            self._latest[name] = rest, build()
        found: T = self._latest[name][1]
        return found


def largest(scores: Tensor) -> Tensor:
    """The largest of each row, as a constant; -inf in a row of nothing: ``(* k) -> (* 1)``."""
    if scores.shape[-1] == 0:
        return scores.new_full((*scores.shape[:-1], 1), -inf)
    return scores.detach().amax(-1, keepdim=True)


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last axis. A CPU takes rows of under 16 numbers one by one, so such rows are
    made longer.
    """
    k = scores.shape[-1]
    if torch.compiler.is_compiling() or scores.device.type != "cpu" or k >= LANES:
        return scores.softmax(-1)
    return F.pad(scores, (0, LANES - k), value=-inf).softmax(-1)[..., :k]
