"""Calls of an attention as a block makes them, and their result by the formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tfzoo.contracts import Attention
from tfzoo.masks import Mask
from tfzoo.testing.samples import SIZES, lengths_to_valid

B, H, Q, K, C, E = 3, SIZES["heads"], 5, 7, SIZES["head_dim"], 6
MIDDLE, FAR = 40, 300
"""Numbers of keys."""


@dataclass
class Call:
    """One call of an attention: ``(b h q c), (b h k c), (b h k e)`` and who may look at whom."""

    q: Tensor
    k: Tensor
    v: Tensor
    causal: bool = False
    valid: Tensor | None = None
    start: int = 0
    allowed: Tensor | None = None
    bias: Tensor | None = None
    temperature: float = 1.0

    def inputs(self, attention: Attention) -> list[Tensor]:
        """What gradients are asked of: tensors, which then require them, and parameters."""
        given = (self.q, self.k, self.v, self.bias)
        return [x.requires_grad_() for x in given if x is not None] + [*attention.parameters()]

    def __call__(self, attention: Attention, dropout: float = 0.0) -> Tensor:
        return attention.forward(
            self.q,
            self.k,
            self.v,
            mask=self.mask,
            bias=self.bias,
            temperature=self.temperature,
            dropout=dropout,
        )

    @property
    def mask(self) -> Mask:
        return Mask(self.causal, self.valid, self.start, self.allowed)

    def visible(self) -> Tensor:
        """True where a query may look at a key, written down query by query: ``(b h q k)``."""
        (b, h, q, _), k = self.q.shape, self.k.shape[2]
        sees = torch.ones(b, h, q, k, dtype=torch.bool)
        if self.causal:
            sees &= torch.arange(k) <= self.start + torch.arange(q)[:, None]
        if self.valid is not None:
            sees &= self.valid[:, None, None]
        return sees if self.allowed is None else sees & self.allowed

    def reference(self, attention: Attention) -> Tensor:
        """The output by the formula, from the attention's own scores."""
        scores = attention.scores(self.q, self.k) / self.temperature
        if self.bias is not None:
            scores = scores + self.bias
        sees = self.visible()
        weights = torch.where(sees, (scores - scores.amax(-1, keepdim=True).detach()).exp(), 0.0)
        return attention.combine(weights / weights.sum(-1, keepdim=True).clamp(min=1e-30), self.v)


def draw(q: int = Q, k: int = K, e: int = E, **options: Any) -> Call:
    """A call with random queries, keys and values."""
    return Call(
        torch.randn(B, H, q, C), torch.randn(B, H, k, C), torch.randn(B, H, k, e), **options
    )


def draw_allowed(b: int = B, h: int = 1, q: int = Q, k: int = K) -> Tensor:
    """A random mask ``(b h q k)``: the first query may look at nothing, the second at one key."""
    allowed = torch.rand(b, h, q, k) < 0.5
    allowed[:, :, :2] = False
    allowed[:, :, 1, 0] = True
    return allowed


def calls() -> Iterator[tuple[str, Call]]:
    """Calls of every sort that a block makes, by name."""
    yield "no mask", draw()
    yield "causal", draw(q=K, causal=True)
    yield "cached step", draw(q=1, causal=True, start=K - 1)
    yield "cached steps", draw(q=3, causal=True, start=2)
    yield "padding on the right", draw(valid=lengths_to_valid([7, 5, 1], K))
    yield (
        "padding on the left, causal",
        draw(q=K, valid=lengths_to_valid([7, 5, 1], K, left=True), causal=True),
    )
    yield (
        "bias, padding and temperature",
        draw(bias=torch.randn(B, H, Q, K), valid=lengths_to_valid([7, 5, 0], K), temperature=0.4),
    )
    yield (
        "any mask of each head, bias",
        draw(allowed=draw_allowed(1, H), bias=torch.randn(1, H, Q, K)),
    )
    yield "cached steps, any mask", draw(q=3, causal=True, start=2, allowed=draw_allowed(q=3))
    # for longer texts, an attention may choose another way to multiply
    yield "middle text, causal", draw(q=MIDDLE, k=MIDDLE, e=C, causal=True)
    yield (
        "middle text, padding on the left, causal, bias",
        draw(
            q=MIDDLE,
            k=MIDDLE,
            causal=True,
            valid=lengths_to_valid([40, 3, 0], MIDDLE, left=True),
            bias=torch.randn(1, H, MIDDLE, MIDDLE),
        ),
    )
    yield (
        "middle text, any mask, causal",
        draw(q=MIDDLE, k=MIDDLE, e=C, causal=True, allowed=draw_allowed(q=MIDDLE, k=MIDDLE)),
    )
    yield "long text", draw(k=FAR, e=C)
    yield (
        "long text, any mask, padding",
        draw(k=FAR, e=C, allowed=draw_allowed(1, k=FAR), valid=lengths_to_valid([FAR, 7, 0], FAR)),
    )
    yield (
        "long text, padding",
        draw(k=FAR, e=C, valid=lengths_to_valid([FAR, 7, 0], FAR), temperature=1.7),
    )
    yield (
        "long text, bias, causal",
        draw(q=150, k=150, e=C, causal=True, bias=torch.randn(1, H, 150, 150)),
    )
    yield "long text, cached steps", draw(q=3, k=FAR, e=C, causal=True, start=FAR - 6)
    yield "long text, causal", draw(q=FAR // 2, k=FAR // 2, causal=True)
