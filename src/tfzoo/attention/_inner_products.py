"""Attention whose scores are inner products: ``softmax(scale * q k^T + bias) v``, by the fastest
way there is where it runs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from tfzoo.dropout import STEPS, draw
from tfzoo.dropout import dropout as drop
from tfzoo.masks import LANES, Mask
from tfzoo.precision import at_least_fp32

SHORT = 128  # keys; with fewer, and a mask to be read, batched products are the faster way on a CPU


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask,
    bias: Tensor | None = None,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> Tensor:
    """``(b h q c), (b h k c), (b h k e) -> (b h q e)``; ``bias`` broadcasts to ``(b h q k)``; zeros
    where nothing is visible.
    """
    if fused_is_faster(q, k, v, mask, bias, dropout):
        return fused(q, k, v, mask, bias, scale, dropout)
    if eager(q, k, v) and q.shape[-2] > 1 and dropout < 1.0:
        scores = Inner.apply(q, k, scale)  # type: ignore[no-untyped-call]
        return weigh(scores, v, mask, bias, dropout)
    return plain(q, k, v, mask, bias, scale, dropout)


def weigh(scores: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float) -> Tensor:
    """``softmax(scores + bias) v``, where :func:`eager` allows it: ``(b h q k), (b h k e) -> (b h q
    e)``.

    The scores may already be as wide as a register, and are written over: they must be nobody
    else's.
    """
    width = max(v.shape[-2], LANES)
    added, seen = mask.additive(scores.shape[-2], v.shape[-2], width, v.device)
    scores = scores if scores.shape[-1] == width else F.pad(scores, (0, width - scores.shape[-1]))
    return Weighing.apply(scores, v, bias, added, seen, round(dropout * STEPS))  # type: ignore[no-any-return,no-untyped-call]


def fused_is_faster(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float
) -> bool:
    """Whether PyTorch's kernel wins here: on an accelerator, and on a CPU for longer text where its
    flash kernel takes the job.
    """
    if q.device.type != "cpu":
        return True
    if dropout > 0.0 or bias is not None or k.shape[-1] != v.shape[-1] or q.shape[-2] == 1:
        return False
    return k.shape[-2] >= (LANES + 1 if matrixless(q, k, mask) else SHORT)


def matrixless(q: Tensor, k: Tensor, mask: Mask) -> bool:
    """Whether all that the mask says is "causal" or nothing. PyTorch aligns the triangle with the
    first key: right if it starts there.
    """
    return mask.keys is None and (
        not mask.causal
        or (q.shape[-2] == k.shape[-2] and mask.first_query(q.shape[-2], k.shape[-2]) == 0)
    )


def eager(*inputs: Tensor) -> bool:
    """Whether a hand-written kernel may run: nothing traces it, and nothing is to be cast."""
    dtype = inputs[0].dtype
    cast = (
        torch.is_autocast_enabled(inputs[0].device.type)
        or dtype.itemsize < 4
        or any(x.dtype != dtype for x in inputs)
    )
    return not (cast or torch.compiler.is_compiling())


def fused(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, scale: float, dropout: float
) -> Tensor:
    """The same through ``F.scaled_dot_product_attention``."""
    lengths = q.shape[-2], k.shape[-2]
    if bias is None and matrixless(q, k, mask):
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, scale=scale, is_causal=mask.causal and lengths[0] > 1
        )
    visible, empty = mask.boolean(*lengths, q.device), mask.fully_masked(*lengths, q.device)
    if visible is not None and empty is not None:
        visible = visible | empty
    if bias is not None:
        bias = bias if visible is None else bias.masked_fill(~visible, float("-inf"))
        bias = bias.expand(*bias.shape[:-2], *lengths).to(q.dtype)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=visible if bias is None else bias, dropout_p=dropout, scale=scale
    )
    return out if empty is None else out.masked_fill(empty, 0.0)


def plain(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, scale: float, dropout: float
) -> Tensor:
    """The same with PyTorch's own operations one by one; softmax in fp32."""
    scores = at_least_fp32((q * scale) @ k.mT)
    if bias is not None:
        scores = scores + bias
    return drop(mask.softmax(scores).to(v.dtype), dropout) @ v


class Inner(torch.autograd.Function):
    """``scale * q k^T`` for short text on a CPU: ``-> (b h q max(k, 16))``, zeros beyond the keys.

    Heads have to be copied out of their tokens anyway, so they are copied into the shape that runs
    fastest: as many keys as fill a register, because the softmax of a narrow row is slow; and, for
    so short a text, one column a token.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, scale: float) -> Tensor:
        heads, ctx.keys, ctx.scale = q.shape[:2], k.shape[-2], scale
        ctx.columns = ctx.keys <= LANES
        q, k = stored(q, q.shape[-2], ctx.columns), stored(k, max(ctx.keys, LANES), ctx.columns)
        ctx.save_for_backward(q, k)
        scores = product(q, k.mT, False, scale)
        return apart(scores, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, None]:
        q, k = ctx.saved_tensors
        heads, slope = slope.shape[:2], slope.flatten(0, 1)
        grad_q, grad_k = (
            product(slope, k, ctx.columns, ctx.scale),
            product(slope.mT, q, ctx.columns, ctx.scale),
        )
        return apart(grad_q, heads), apart(grad_k, heads)[..., : ctx.keys, :], None


class Weighing(torch.autograd.Function):
    """``softmax(scores + bias) v`` on a CPU, in as few passes over ``(b h q k)`` as can be; writes
    over the scores.
    """

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        v: Tensor,
        bias: Tensor | None,
        added: Tensor | None,
        seen: Tensor | None,
        steps: int,
    ) -> Tensor:
        ctx.heads, ctx.keys, width = v.shape[:2], v.shape[-2], scores.shape[-1]
        ctx.columns, ctx.scale = width == LANES, STEPS / (STEPS - steps)
        v = stored(v, width, ctx.columns)
        if bias is not None:
            scores.add_(F.pad(bias, (0, width - ctx.keys)) if bias.shape[-1] > 1 else bias)
            ctx.bias = bias.shape
        if added is not None:
            scores.add_(added)
        weights = torch.softmax(scores, -1, out=scores)
        if seen is not None:
            weights.mul_(seen)
        weights = weights.flatten(0, 1)
        kept = draw(weights, steps) if steps else None
        ctx.save_for_backward(v, weights, kept)
        return apart(product(thinned(weights, kept), v, False, ctx.scale), ctx.heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        v, weights, kept = ctx.saved_tensors
        grad = stored(grad, grad.shape[-2], ctx.columns)
        grad_v = apart(product(thinned(weights, kept).mT, grad, ctx.columns, ctx.scale), ctx.heads)[
            ..., : ctx.keys, :
        ]
        slope = thinned(product(grad, v.mT, False, ctx.scale), kept)
        torch.ops.aten._softmax_backward_data.out(
            slope, weights, -1, weights.dtype, grad_input=slope
        )
        slope = apart(slope, ctx.heads)
        grad_bias = None
        if ctx.needs_input_grad[2]:
            shape = ctx.bias if ctx.bias[-1] == 1 else (*ctx.bias[:-1], slope.shape[-1])
            grad_bias = slope.sum_to_size(shape)[..., : ctx.keys]
        return slope, grad_v, grad_bias, None, None, None


def thinned(x: Tensor, kept: Tensor | None) -> Tensor:
    """``x`` where it was kept, zero elsewhere; scaling is left to the product that follows or went
    before.
    """
    return x if kept is None else kept.to(x.dtype).mul_(x)


def apart(x: Tensor, heads: torch.Size) -> Tensor:
    """``((b h) n c) -> (b h n c)``"""
    return x.view(*heads, *x.shape[1:])


def stored(x: Tensor, rows: int, columns: bool) -> Tensor:
    """``(b h n c) -> ((b h) rows c)`` in memory of its own, zeros beyond ``n``; by channels, not by
    tokens, if ``columns``.
    """
    *batch, n, c = x.shape
    if n == rows and not columns:
        return x.reshape(-1, n, c)
    copy = x.new_empty(*batch, c, rows).mT if columns else x.new_empty(*batch, rows, c)
    copy[..., :n, :] = x
    copy[..., n:, :] = 0.0
    return copy.flatten(0, -3)


def product(x: Tensor, y: Tensor, columns: bool, scale: float = 1.0) -> Tensor:
    """``scale * x y``, batched; the result lies in memory by columns if so asked."""
    if columns:
        return product(y.mT, x.mT, False, scale).mT
    return torch.baddbmm(x.new_empty(1), x, y, beta=0.0, alpha=scale)
