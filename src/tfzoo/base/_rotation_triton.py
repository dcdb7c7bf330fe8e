"""Rotary position in Triton: queries and keys in one kernel, each read and written once."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr, tensor


class RotateInTriton(torch.autograd.Function):
    """``(b h n c), (b kv_heads n c), (b|1 1 n r/2), (b|1 1 n r/2)`` to the shapes of the first two.
    The backward rotates by the opposite angle.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, halves: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(cos, sin)
        ctx.halves = halves
        # Channels side by side, and heads of a token, as projections give them.
        q, k = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k))
        out = [
            torch.empty_like(x.transpose(1, 2), memory_format=torch.contiguous_format)
            for x in (q, k)
        ]
        (b, heads, n, width), pairs = q.shape, cos.shape[-1]
        with torch.cuda.device_of(q):
            rotate_kernel[(b * n,)](
                *(q, k, *out, cos.contiguous(), sin.contiguous(), n if len(cos) > 1 else 0),
                *(n, heads, k.shape[1], width, pairs, *q.stride()[:3], *k.stride()[:3]),
                halves=halves,
                block_h=triton.next_power_of_2(max(heads, k.shape[1])),
                block_c=triton.next_power_of_2(pairs),
                rest=triton.next_power_of_2(width - 2 * pairs) if width > 2 * pairs else 0,
            )
        return out[0].transpose(1, 2), out[1].transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, q: Tensor, k: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return *RotateInTriton.apply(q, k, cos, -sin, ctx.halves), None, None, None  # type: ignore[no-untyped-call]


@triton.jit
def rotate_heads(
    x: tensor, out: tensor, stride: tensor, heads: tensor, width: tensor, pairs: tensor,
    cos: tensor, sin: tensor,
    halves: constexpr, block_h: constexpr, block_c: constexpr, rest: constexpr,
) -> None:  # fmt: skip
    """The heads of one token."""
    head, pair = tl.arange(0, block_h)[:, None], tl.arange(0, block_c)[None, :]
    if halves:
        first, second = pair, pair + pairs
    else:
        first, second = 2 * pair, 2 * pair + 1
    inside = (head < heads) & (pair < pairs)
    a = tl.load(x + head * stride + first, mask=inside, other=0.0).to(cos.dtype)
    b = tl.load(x + head * stride + second, mask=inside, other=0.0).to(cos.dtype)
    kind = out.dtype.element_ty
    tl.store(out + head * width + first, (a * cos - b * sin).to(kind), mask=inside)
    tl.store(out + head * width + second, (b * cos + a * sin).to(kind), mask=inside)
    if rest > 0:
        channel = 2 * pairs + tl.arange(0, rest)[None, :]
        beyond = (head < heads) & (channel < width)
        tl.store(
            out + head * width + channel, tl.load(x + head * stride + channel, mask=beyond),
            mask=beyond,
        )  # fmt: skip


@triton.jit
def rotate_kernel(
    q: tensor, k: tensor, of_q: tensor, of_k: tensor, cos: tensor, sin: tensor, angles: tensor,
    n: tensor, heads: tensor, kv_heads: tensor, width: tensor, pairs: tensor,
    q_b: tensor, q_h: tensor, q_n: tensor, k_b: tensor, k_h: tensor, k_n: tensor,
    halves: constexpr, block_h: constexpr, block_c: constexpr, rest: constexpr,
) -> None:  # fmt: skip
    """One token; ``angles`` is the number of angles of a text before those of the next, if any."""
    token = tl.program_id(0).to(tl.int64)
    text, place = token // n, token % n
    pair = tl.arange(0, block_c)[None, :]
    where = (text * angles + place) * pairs + pair
    c = tl.load(cos + where, mask=pair < pairs, other=0.0)
    s = tl.load(sin + where, mask=pair < pairs, other=0.0)
    q, k = q + text * q_b + place * q_n, k + text * k_b + place * k_n
    of_q, of_k = of_q + token * heads * width, of_k + token * kv_heads * width
    rotate_heads(q, of_q, q_h, heads, width, pairs, c, s, halves, block_h, block_c, rest)
    rotate_heads(k, of_k, k_h, kv_heads, width, pairs, c, s, halves, block_h, block_c, rest)
