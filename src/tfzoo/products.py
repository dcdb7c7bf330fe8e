"""Attention whose scores are inner products: ``softmax(scale * q k^T + bias) v``, by the fastest way there is where it runs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from tfzoo.dropout import STEPS, draw
from tfzoo.dropout import apply as apply_dropout
from tfzoo.dropout import dropout as drop
from tfzoo.masks import LANES, Mask

SHORT = 128  # keys; with fewer, and a mask to be read, batched products are the faster way on a CPU


def attend(q: Tensor, k: Tensor, v: Tensor, *, mask: Mask, bias: Tensor | None = None, scale: float = 1.0, dropout: float = 0.0) -> Tensor:
    """``(b h q c), (b h k c), (b h k e) -> (b h q e)``; ``bias`` broadcasts to ``(b h q k)``; zeros where nothing is visible."""
    if fused_is_faster(q, k, v, mask, bias, dropout):
        return fused(q, k, v, mask, bias, scale, dropout)
    if eager(q, k, v) and q.shape[-2] > 1 and dropout < 1.0:
        width = max(k.shape[-2], LANES)
        added, seen = mask.added(q.shape[-2], k.shape[-2], width, q.device)
        return Products.apply(q, k, v, bias, added, seen, scale, round(dropout * STEPS))  # type: ignore[no-any-return,no-untyped-call]
    return plain(q, k, v, mask, bias, scale, dropout)


def fused_is_faster(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float) -> bool:
    """Whether PyTorch's kernel wins here: on an accelerator, and on a CPU for longer text where its flash kernel takes the job."""
    if q.device.type != "cpu":
        return True
    if dropout > 0.0 or bias is not None or k.shape[-1] != v.shape[-1] or q.shape[-2] == 1:
        return False
    return k.shape[-2] >= (LANES + 1 if matrixless(q, k, mask) else SHORT)


def matrixless(q: Tensor, k: Tensor, mask: Mask) -> bool:
    """Whether all that the mask says is "causal" or nothing. PyTorch aligns the triangle with the first key: right if it starts there."""
    return mask.keys is None and (not mask.causal or (mask.start == 0 and q.shape[-2] == k.shape[-2]))


def eager(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the hand-written kernel may run: nothing traces it, and nothing is to be cast."""
    cast = torch.is_autocast_enabled(q.device.type) or q.dtype != k.dtype or k.dtype != v.dtype or q.dtype.itemsize < 4
    return not (cast or torch.compiler.is_compiling())


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, scale: float, dropout: float) -> Tensor:
    """The same through ``F.scaled_dot_product_attention``."""
    lengths = q.shape[-2], k.shape[-2]
    if bias is None and matrixless(q, k, mask):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scale, is_causal=mask.causal and lengths[0] > 1)
    dense, blind = mask.dense(*lengths, q.device), mask.blind(*lengths, q.device)
    visible = dense if dense is None or blind is None else dense | blind
    if bias is not None:
        bias = bias if visible is None else bias.masked_fill(~visible, float("-inf"))
        bias = bias.expand(*bias.shape[:-2], *lengths).to(q.dtype)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible if bias is None else bias, dropout_p=dropout, scale=scale)
    return out if blind is None else out.masked_fill(blind, 0.0)


def plain(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, scale: float, dropout: float) -> Tensor:
    """The same with PyTorch's own operations one by one; softmax in fp32."""
    scores = ((q * scale) @ k.mT).float()
    if bias is not None:
        scores = scores + bias
    return drop(mask.softmax(scores).to(v.dtype), dropout) @ v


class Products(torch.autograd.Function):
    """The same for short text on a CPU, in as few passes over ``(b h q k)`` as can be.

    Heads have to be copied out of their tokens anyway, so they are copied into the shape that runs fastest: a whole number of
    registers of keys, because the softmax of a narrow row is slow; and, while the text is short, one column a token.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, added: Tensor | None, seen: Tensor | None, scale: float, steps: int
    ) -> Tensor:
        heads, keys = q.shape[:2], k.shape[-2]
        width = max(keys, LANES)
        columns = width == LANES
        q, k, v = stored(q, q.shape[-2], columns), stored(k, width, columns), stored(v, width, columns)
        weights = product(q, k.mT, False, scale)
        whole = weights.view(*heads, *weights.shape[1:])
        if bias is not None:
            whole.add_(F.pad(bias, (0, width - keys)))
        if added is not None:
            whole.add_(added)
        torch.softmax(weights, -1, out=weights)
        if seen is not None:
            whole.mul_(seen)
        kept = draw(weights, steps) if steps else None
        ctx.save_for_backward(q, k, v, weights, kept)
        ctx.heads, ctx.keys, ctx.columns, ctx.scale, ctx.thinning = heads, keys, columns, scale, STEPS / (STEPS - steps)
        ctx.bias = None if bias is None else (*bias.shape[:-1], width)
        thinned = weights if kept is None else apply_dropout(weights, kept, ctx.thinning)
        return torch.bmm(thinned, v).unflatten(0, heads)  # type: ignore[no-untyped-call,no-any-return]

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, weights, kept = ctx.saved_tensors
        grad = stored(grad, grad.shape[-2], ctx.columns)
        thinned = weights if kept is None else apply_dropout(weights, kept, ctx.thinning)
        grad_v = product(thinned.mT, grad, ctx.columns)
        slope = product(grad, v.mT, False)
        if kept is not None:
            slope = apply_dropout(slope, kept, ctx.thinning)
        torch.ops.aten._softmax_backward_data.out(slope, weights, -1, weights.dtype, grad_input=slope)
        grad_q, grad_k = product(slope, k, ctx.columns, ctx.scale), product(slope.mT, q, ctx.columns, ctx.scale)
        grad_q, grad_k, grad_v, slope = (x.unflatten(0, ctx.heads) for x in (grad_q, grad_k, grad_v, slope))
        grad_bias = slope.sum_to_size(ctx.bias)[..., : ctx.keys] if ctx.needs_input_grad[3] else None
        return grad_q, grad_k[..., : ctx.keys, :], grad_v[..., : ctx.keys, :], grad_bias, None, None, None, None


def stored(x: Tensor, rows: int, columns: bool) -> Tensor:
    """``(b h n c) -> ((b h) rows c)`` in memory of its own, filled up with zeros; each channel, not each token, in one piece if ``columns``."""
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
