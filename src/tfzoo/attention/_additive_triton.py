"""Attention by a small network, ``softmax(sum_j v_j tanh(a_qj + b_kj)) values``, in Triton: a block
of queries goes over blocks of keys with an online softmax (Milakov and Gimelshein 2018,
arXiv:1805.02867), so that neither ``(q k)`` nor ``(q k j)`` is in memory, nor in the backward.

``tanh(a + b) = 2 s(2 a + 2 b) - 1``, where ``s`` is the logistic function, and a softmax does not
see what all scores have in common. So scores are ``sum_j w_j s(x_qj + y_kj)`` with ``w = 2 v``,
``x = 2 a``, ``y = 2 b``, which kernels read as ``(g j)``, ``(g j q)`` and ``(g j k)``, ``g`` for
texts and heads. The backward computes them again, once for blocks of queries and once for blocks of
keys: each of its sums has one program, and is the same from run to run.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr, tensor

from tfzoo.attention._tanh_scores import formula
from tfzoo.base.custom_autograd import differentiable_backward
from tfzoo.base.precision import compute_dtype
from tfzoo.masks import Mask

NARROWEST = 16  # of a block on any side: what a product of two takes
SIDE = 64  # queries, and keys, of a block; fewer where values are wide, as registers hold them


def triton_attention(a: Tensor, b: Tensor, v: Tensor, values: Tensor, mask: Mask) -> Tensor:
    """``(b h q j), (b h k j), (h j), (b h k e) -> (b h q e)``; zeros for a query that may look at
    no key. The mask has no ``allowed``.
    """
    dtype = compute_dtype(a, b, v, values)
    groups = (x.to(dtype).flatten(0, 1) for x in (a, b, v.expand(len(a), -1, -1), values))
    out: Tensor = TritonAttention.apply(*groups, mask, len(a))  # type: ignore[no-untyped-call]
    out = out.unflatten(0, a.shape[:2])
    return out.to(values.dtype)


class TritonAttention(torch.autograd.Function):
    """``(g q j), (g k j), (g j), (g k e) -> (g q e)``"""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, v: Tensor, values: Tensor, mask: Mask, texts: int
    ) -> Tensor:
        ctx.mask, ctx.texts = mask, texts
        read, sizes, kinds = arguments(a, b, v, values, mask, texts)
        out = values.new_empty(*a.shape[:2], values.shape[2])
        norm = a.new_empty(a.shape[:2])
        grid = len(a), triton.cdiv(a.shape[1], kinds["block_q"])
        with torch.cuda.device_of(a):
            forward_kernel[grid](*read, out, norm, *sizes, **kinds)
        ctx.save_for_backward(a, b, v, values, out, norm)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, v, values, out, norm = ctx.saved_tensors
        if torch.is_grad_enabled():

            def plain(a: Tensor, b: Tensor, v: Tensor, values: Tensor) -> Tensor:
                scores = formula(a, b, v).unflatten(0, (ctx.texts, -1))
                weights: Tensor = ctx.mask.softmax(scores)
                return weights.flatten(0, 1) @ values

            return *differentiable_backward(plain, (a, b, v, values), grad), None, None
        read, sizes, kinds = arguments(a, b, v, values, ctx.mask, ctx.texts)
        grad = grad.contiguous()
        read = *read, grad, norm, (grad * out).sum(-1)
        of_x, of_y, of_values = (torch.zeros_like(one) for one in (read[0], read[1], read[3]))
        share = torch.zeros_like(of_x)
        rows = len(a), triton.cdiv(a.shape[1], kinds["block_q"])
        columns = len(a), triton.cdiv(b.shape[1], kinds["block_k"])
        with torch.cuda.device_of(a):
            queries_kernel[rows](*read, of_x, share, *sizes, **kinds)
            keys_kernel[columns](*read, of_y, of_values, *sizes, **kinds)
        factor = 4.0 * v[:, :, None]
        return (factor * of_x).mT, (factor * of_y).mT, 2.0 * share.sum(-1), of_values, None, None


def arguments(
    a: Tensor, b: Tensor, v: Tensor, values: Tensor, mask: Mask, texts: int
) -> tuple[tuple[Tensor, ...], tuple[int, ...], dict[str, Any]]:
    """What each kernel reads, the sizes, and what it is compiled for."""
    (groups, q, j), (_, k, e) = a.shape, values.shape
    x, y, w = (2.0 * a).mT.contiguous(), (2.0 * b).mT.contiguous(), (2.0 * v).contiguous()
    real = x if mask.keys is None else mask.keys.expand(texts, k).to(torch.int8).contiguous()
    channels = max(NARROWEST, triton.next_power_of_2(e))
    side = max(NARROWEST, min(SIDE, SIDE * SIDE // channels))
    kinds = {
        "causal": mask.causal,
        "padded": mask.keys is not None,
        "block_q": side,
        "block_k": side,
        "block_e": channels,
        "num_warps": 8,
    }
    sizes = groups // texts, q, k, j, e, mask.first_query(q, k)
    return (x, y, w, values.contiguous(), real), sizes, kinds


@triton.jit
def logistic(
    x: tensor, y: tensor, j: tensor, rows: tensor, columns: tensor, queries: tensor, keys: tensor
) -> tensor:  # fmt: skip
    """``s(x_qj + y_kj)`` of one ``j``: ``(block_q block_k)``."""
    row = tl.load(x + j * queries + rows, mask=rows < queries, other=0.0)
    column = tl.load(y + j * keys + columns, mask=columns < keys, other=0.0)
    return 1.0 / (1.0 + tl.exp(-(row[:, None] + column[None, :])))


@triton.jit
def scores_of(
    x: tensor, y: tensor, w: tensor, real: tensor, rows: tensor, columns: tensor,
    queries: tensor, keys: tensor, hidden: tensor, first: tensor,
    causal: constexpr, padded: constexpr,
) -> tensor:  # fmt: skip
    """Scores, -inf where a query may not look at a key: ``(block_q block_k)``."""
    scores = tl.zeros((rows.shape[0], columns.shape[0]), x.dtype.element_ty)
    for j in range(hidden):
        scores += tl.load(w + j) * logistic(x, y, j, rows, columns, queries, keys)
    seen = (rows < queries)[:, None] & (columns < keys)[None, :]
    if causal:
        seen = seen & (columns[None, :] <= rows[:, None] + first)
    if padded:
        seen = seen & (tl.load(real + columns, mask=columns < keys, other=0) != 0)[None, :]
    return tl.where(seen, scores, float("-inf"))


@triton.jit
def places_of(rows: tensor, count: tensor, width: tensor, block_e: constexpr) -> tensor:
    """Where these rows of ``(count width)`` are, and which of them are there."""
    channels = tl.arange(0, block_e)
    inside = (rows < count)[:, None] & (channels < width)[None, :]
    return rows[:, None] * width + channels[None, :], inside


@triton.jit
def gradients_of(
    scores: tensor, norm: tensor, delta: tensor, upstream: tensor, block: tensor
) -> tensor:
    """Weights, and the gradient of scores."""
    weights = tl.exp(scores - norm[:, None])
    of_weights = tl.dot(upstream, tl.trans(block), input_precision="ieee")
    return weights, weights * (of_weights - delta[:, None])


@triton.jit
def forward_kernel(
    x: tensor, y: tensor, w: tensor, values: tensor, real: tensor, out: tensor, norm: tensor,
    heads: tensor, queries: tensor, keys: tensor, hidden: tensor, width: tensor, first: tensor,
    causal: constexpr, padded: constexpr,
    block_q: constexpr, block_k: constexpr, block_e: constexpr,
) -> None:  # fmt: skip
    """The output of a block of queries, and the logarithm of what its weights are divided by."""
    g = tl.program_id(0).to(tl.int64)
    x, y, w = x + g * hidden * queries, y + g * hidden * keys, w + g * hidden
    real, values = real + g // heads * keys, values + g * keys * width
    start = tl.program_id(1) * block_q
    rows = start + tl.arange(0, block_q)
    top = tl.full((block_q,), float("-inf"), x.dtype.element_ty)
    total = tl.zeros((block_q,), x.dtype.element_ty)
    sums = tl.zeros((block_q, block_e), x.dtype.element_ty)
    last = keys
    if causal:
        last = tl.minimum(keys, start + block_q + first)
    for begin in range(0, last, block_k):
        columns = begin + tl.arange(0, block_k)
        scores = scores_of(
            x, y, w, real, rows, columns, queries, keys, hidden, first, causal, padded
        )
        higher = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weights, factor = tl.exp(scores - base[:, None]), tl.exp(top - base)
        places, inside = places_of(columns, keys, width, block_e)
        block = tl.load(values + places, mask=inside, other=0.0)
        sums = sums * factor[:, None] + tl.dot(weights, block, input_precision="ieee")
        total = total * factor + tl.sum(weights, 1)
        top = higher
    seen = total > 0.0
    total = tl.where(seen, total, 1.0)
    places, inside = places_of(rows, queries, width, block_e)
    tl.store(out + g * queries * width + places, sums / total[:, None], mask=inside)
    # Infinite for a query without keys: its weights are then 0 in the backward.
    logarithm = tl.where(seen, top + tl.log(total), float("inf"))
    tl.store(norm + g * queries + rows, logarithm, mask=rows < queries)


@triton.jit
def queries_kernel(
    x: tensor, y: tensor, w: tensor, values: tensor, real: tensor,
    grad: tensor, norm: tensor, delta: tensor, of_x: tensor, share: tensor,
    heads: tensor, queries: tensor, keys: tensor, hidden: tensor, width: tensor, first: tensor,
    causal: constexpr, padded: constexpr,
    block_q: constexpr, block_k: constexpr, block_e: constexpr,
) -> None:  # fmt: skip
    """Sums over keys of ``grad s (1 - s)`` and ``grad s`` for a block of queries."""
    g = tl.program_id(0).to(tl.int64)
    x, y, w = x + g * hidden * queries, y + g * hidden * keys, w + g * hidden
    real, values = real + g // heads * keys, values + g * keys * width
    of_x, share = of_x + g * hidden * queries, share + g * hidden * queries
    start = tl.program_id(1) * block_q
    rows = start + tl.arange(0, block_q)
    there = rows < queries
    places, inside = places_of(rows, queries, width, block_e)
    upstream = tl.load(grad + g * queries * width + places, mask=inside, other=0.0)
    norms = tl.load(norm + g * queries + rows, mask=there, other=float("inf"))
    deltas = tl.load(delta + g * queries + rows, mask=there, other=0.0)
    last = keys
    if causal:
        last = tl.minimum(keys, start + block_q + first)
    for begin in range(0, last, block_k):
        columns = begin + tl.arange(0, block_k)
        scores = scores_of(
            x, y, w, real, rows, columns, queries, keys, hidden, first, causal, padded
        )
        places, inside = places_of(columns, keys, width, block_e)
        block = tl.load(values + places, mask=inside, other=0.0)
        _, of_scores = gradients_of(scores, norms, deltas, upstream, block)
        for j in range(hidden):
            s = logistic(x, y, j, rows, columns, queries, keys)
            slope = of_scores * s
            # Atomic, so that what one thread of this program wrote is what the next one adds to.
            tl.atomic_add(share + j * queries + rows, tl.sum(slope, 1), mask=there)
            tl.atomic_add(of_x + j * queries + rows, tl.sum(slope * (1.0 - s), 1), mask=there)


@triton.jit
def keys_kernel(
    x: tensor, y: tensor, w: tensor, values: tensor, real: tensor,
    grad: tensor, norm: tensor, delta: tensor, of_y: tensor, of_values: tensor,
    heads: tensor, queries: tensor, keys: tensor, hidden: tensor, width: tensor, first: tensor,
    causal: constexpr, padded: constexpr,
    block_q: constexpr, block_k: constexpr, block_e: constexpr,
) -> None:  # fmt: skip
    """Sums over queries of ``grad s (1 - s)`` for a block of keys, and its values' gradient."""
    g = tl.program_id(0).to(tl.int64)
    x, y, w = x + g * hidden * queries, y + g * hidden * keys, w + g * hidden
    real, of_y = real + g // heads * keys, of_y + g * hidden * keys
    grad, norm, delta = grad + g * queries * width, norm + g * queries, delta + g * queries
    start = tl.program_id(1) * block_k
    columns = start + tl.arange(0, block_k)
    own, own_inside = places_of(columns, keys, width, block_e)
    block = tl.load(values + g * keys * width + own, mask=own_inside, other=0.0)
    sums = tl.zeros((block_k, block_e), x.dtype.element_ty)
    lowest = 0
    if causal:
        lowest = tl.maximum(0, start - first)
    for begin in range(lowest, queries, block_q):
        rows = begin + tl.arange(0, block_q)
        there = rows < queries
        scores = scores_of(
            x, y, w, real, rows, columns, queries, keys, hidden, first, causal, padded
        )
        places, inside = places_of(rows, queries, width, block_e)
        upstream = tl.load(grad + places, mask=inside, other=0.0)
        norms = tl.load(norm + rows, mask=there, other=float("inf"))
        deltas = tl.load(delta + rows, mask=there, other=0.0)
        weights, of_scores = gradients_of(scores, norms, deltas, upstream, block)
        sums += tl.dot(tl.trans(weights), upstream, input_precision="ieee")
        for j in range(hidden):
            s = logistic(x, y, j, rows, columns, queries, keys)
            slope = of_scores * s * (1.0 - s)
            tl.atomic_add(of_y + j * keys + columns, tl.sum(slope, 0), mask=columns < keys)
    tl.store(of_values + g * keys * width + own, sums, mask=own_inside)
