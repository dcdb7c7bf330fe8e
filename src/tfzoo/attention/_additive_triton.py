"""Attention by a small network, ``softmax(sum_j v_j tanh(a_qj + b_kj)) values``, in Triton: a block
of queries goes over blocks of keys with an online softmax (Milakov and Gimelshein 2018,
arXiv:1805.02867), so that neither ``(q k)`` nor ``(q k j)`` is in memory, nor in the backward.

``tanh(a + b) = 2 s - 1`` with the logistic function ``s = 1 / (1 + exp(x + y))``, ``x = -2 a``,
``y = -2 b``, and a softmax does not see what all scores have in common. So scores are ``sum_j w_j
s_qkj`` with ``w = 2 v``.

The backward computes them again, once for blocks of queries and once for blocks of keys: each of
its sums has one program, and is the same from run to run. A program has a block of pairs ``(q k)``
while it adds over ``j``, and a block of ``(q j)`` or ``(k j)`` while it adds over the other side,
so that threads add what is their own. Between the two, gradients of scores are in memory, a block
for each program. Kernels read ``x`` as ``(g j q)`` and ``(g q j)``, ``y`` as ``(g j k)`` and ``(g k
j)``, ``g`` for texts and heads.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr, tensor

from tfzoo.attention._tanh_scores import formula
from tfzoo.base.functional import compute_dtype
from tfzoo.base.kernels import differentiable_backward
from tfzoo.masks import Mask

NARROWEST = 16  # of a block on any side: what a product of two takes
SIDE = 64  # the most of a block on any side
Block = tuple[int, int, int]
"""Queries and keys of a block, and the warps of a program."""
# Of each kernel; others that were tried on an H200 are slower.
FORWARD: Block = (64, 32, 8)
QUERIES: Block = (32, 32, 4)
KEYS: Block = (64, 64, 8)


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
        x, y = -2.0 * a, -2.0 * b
        read, sizes, kinds = arguments(x, y, v, values, mask, texts)
        out = values.new_empty(*a.shape[:2], values.shape[2])
        norm = a.new_empty(a.shape[:2])
        block = blocks(FORWARD, kinds)
        grid = len(a), triton.cdiv(a.shape[1], block["block_q"])
        with torch.cuda.device_of(a):
            forward_kernel[grid](*read, out, norm, *sizes, **kinds, **block)
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
        x, y = -2.0 * a, -2.0 * b
        read, sizes, kinds = arguments(x, y, v, values, ctx.mask, ctx.texts)
        kinds["block_j"] = min(SIDE, max(NARROWEST, triton.next_power_of_2(a.shape[2])))
        grad = grad.contiguous()
        read = *read, x, y, grad, norm, (grad * out).sum(-1)
        of_x, of_y, share, of_values = map(torch.zeros_like, (x, y, x, values))
        by_rows, by_columns = blocks(QUERIES, kinds), blocks(KEYS, kinds)
        rows = len(a), triton.cdiv(a.shape[1], by_rows["block_q"])
        columns = len(a), triton.cdiv(b.shape[1], by_columns["block_k"])
        needed = [
            programs * block["block_q"] * block["block_k"]
            for (_, programs), block in ((rows, by_rows), (columns, by_columns))
        ]
        pairs = a.new_empty(len(a), max(needed))
        with torch.cuda.device_of(a):
            queries_kernel[rows](*read, pairs, of_x, share, *sizes, **kinds, **by_rows)
            keys_kernel[columns](*read, pairs, of_y, of_values, *sizes, **kinds, **by_columns)
        factor = 4.0 * v[:, None]
        return factor * of_x, factor * of_y, 2.0 * share.sum(1), of_values, None, None


def arguments(
    x: Tensor, y: Tensor, v: Tensor, values: Tensor, mask: Mask, texts: int
) -> tuple[tuple[Tensor, ...], tuple[int, ...], dict[str, Any]]:
    """What each kernel reads, the sizes, and what it is compiled for."""
    (groups, q, j), (_, k, e) = x.shape, values.shape
    real = x if mask.keys is None else mask.keys.expand(texts, k).to(torch.int8).contiguous()
    channels = max(NARROWEST, triton.next_power_of_2(e))
    kinds = {"causal": mask.causal, "padded": mask.keys is not None, "block_e": channels}
    sizes = groups // texts, q, k, j, e, mask.first_query(q, k)
    read = x.mT.contiguous(), y.mT.contiguous(), (2.0 * v).contiguous(), values.contiguous(), real
    return read, sizes, kinds


def blocks(block: Block, kinds: dict[str, Any]) -> dict[str, int]:
    """The sizes of a kernel's blocks: smaller ones where values are wide, as registers hold
    them.
    """
    q, k, warps = block
    wider = max(1, kinds["block_e"] // SIDE)
    sides = {"block_q": q, "block_k": k}
    return {name: max(NARROWEST, n // wider) for name, n in sides.items()} | {"num_warps": warps}


@triton.jit
def logistic(rows: tensor, columns: tensor) -> tensor:
    """``1 / (1 + exp(row + column))``: ``(r), (c) -> (r c)``, or ``(r c), (c) -> (r c)``."""
    return 1.0 / (1.0 + tl.exp(rows + columns))


@triton.jit
def scores_of(
    x: tensor, y: tensor, w: tensor, real: tensor, rows: tensor, columns: tensor,
    queries: tensor, keys: tensor, hidden: tensor, first: tensor,
    causal: constexpr, padded: constexpr,
) -> tensor:  # fmt: skip
    """Scores, -inf where a query may not look at a key: ``(block_q block_k)``."""
    scores = tl.zeros((rows.shape[0], columns.shape[0]), x.dtype.element_ty)
    for j in range(hidden):
        row = tl.load(x + j * queries + rows, mask=rows < queries, other=0.0)
        column = tl.load(y + j * keys + columns, mask=columns < keys, other=0.0)
        scores += tl.load(w + j) * logistic(row[:, None], column[None, :])
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
def sums_of(
    own: tensor, others: tensor, pairs: tensor, slopes: tensor, weights: tensor,
    rows: tensor, count: tensor, begin: tensor, limit: tensor, hidden: tensor,
    step: constexpr, row_step: constexpr, block_i: constexpr, block_j: constexpr,
    weighted: constexpr,
) -> None:  # fmt: skip
    """For these rows of ``own`` ``(count hidden)``, add sums over ``block_i`` rows of ``others``
    ``(limit hidden)``, the first of which is ``begin``: of ``d s (1 - s)`` to ``slopes``, and of
    ``d s`` to ``weights``. ``d`` of the pair ``(r i)`` is at ``row_step r + step i`` of ``pairs``.
    """
    places = tl.arange(0, rows.shape[0])
    for first in range(0, hidden, block_j):
        j = first + tl.arange(0, block_j)
        inside = (rows < count)[:, None] & (j < hidden)[None, :]
        place = rows[:, None] * hidden + j[None, :]
        mine = tl.load(own + place, mask=inside, other=0.0)
        of_slopes = tl.load(slopes + place, mask=inside, other=0.0)
        of_weights = tl.zeros_like(of_slopes)
        for i in range(block_i):
            there = (j < hidden) & (begin + i < limit)
            other = tl.load(others + (begin + i) * hidden + j, mask=there, other=0.0)
            d = tl.load(pairs + places * row_step + i * step)
            s = logistic(mine, other[None, :])
            slope = d[:, None] * s
            of_weights += slope
            of_slopes += slope * (1.0 - s)
        tl.store(slopes + place, of_slopes, mask=inside)
        if weighted:
            of_weights += tl.load(weights + place, mask=inside, other=0.0)
            tl.store(weights + place, of_weights, mask=inside)


@triton.jit
def queries_kernel(
    x: tensor, y: tensor, w: tensor, values: tensor, real: tensor, x_rows: tensor, y_rows: tensor,
    grad: tensor, norm: tensor, delta: tensor, pairs: tensor, of_x: tensor, share: tensor,
    heads: tensor, queries: tensor, keys: tensor, hidden: tensor, width: tensor, first: tensor,
    causal: constexpr, padded: constexpr,
    block_q: constexpr, block_k: constexpr, block_e: constexpr, block_j: constexpr,
) -> None:  # fmt: skip
    """Sums over keys of ``grad s (1 - s)`` and ``grad s`` for a block of queries."""
    g = tl.program_id(0).to(tl.int64)
    x, y, w = x + g * hidden * queries, y + g * hidden * keys, w + g * hidden
    x_rows, y_rows = x_rows + g * hidden * queries, y_rows + g * hidden * keys
    real, values = real + g // heads * keys, values + g * keys * width
    of_x, share = of_x + g * hidden * queries, share + g * hidden * queries
    pairs += (g * tl.num_programs(1) + tl.program_id(1)) * block_q * block_k
    start = tl.program_id(1) * block_q
    rows = start + tl.arange(0, block_q)
    there = rows < queries
    own, own_inside = places_of(rows, queries, width, block_e)
    upstream = tl.load(grad + g * queries * width + own, mask=own_inside, other=0.0)
    norms = tl.load(norm + g * queries + rows, mask=there, other=float("inf"))
    deltas = tl.load(delta + g * queries + rows, mask=there, other=0.0)
    pair = tl.arange(0, block_q)[:, None] * block_k + tl.arange(0, block_k)[None, :]
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
        tl.store(pairs + pair, of_scores)
        tl.debug_barrier()  # other threads read them
        sums_of(
            x_rows, y_rows, pairs, of_x, share, rows, queries, begin, keys, hidden,
            1, block_k, block_k, block_j, True,
        )  # fmt: skip
        tl.debug_barrier()


@triton.jit
def keys_kernel(
    x: tensor, y: tensor, w: tensor, values: tensor, real: tensor, x_rows: tensor, y_rows: tensor,
    grad: tensor, norm: tensor, delta: tensor, pairs: tensor, of_y: tensor, of_values: tensor,
    heads: tensor, queries: tensor, keys: tensor, hidden: tensor, width: tensor, first: tensor,
    causal: constexpr, padded: constexpr,
    block_q: constexpr, block_k: constexpr, block_e: constexpr, block_j: constexpr,
) -> None:  # fmt: skip
    """Sums over queries of ``grad s (1 - s)`` for a block of keys, and its values' gradient."""
    g = tl.program_id(0).to(tl.int64)
    x, y, w = x + g * hidden * queries, y + g * hidden * keys, w + g * hidden
    x_rows, y_rows = x_rows + g * hidden * queries, y_rows + g * hidden * keys
    real, of_y = real + g // heads * keys, of_y + g * hidden * keys
    grad, norm, delta = grad + g * queries * width, norm + g * queries, delta + g * queries
    pairs += (g * tl.num_programs(1) + tl.program_id(1)) * block_q * block_k
    start = tl.program_id(1) * block_k
    columns = start + tl.arange(0, block_k)
    own, own_inside = places_of(columns, keys, width, block_e)
    block = tl.load(values + g * keys * width + own, mask=own_inside, other=0.0)
    sums = tl.zeros((block_k, block_e), x.dtype.element_ty)
    pair = tl.arange(0, block_q)[:, None] * block_k + tl.arange(0, block_k)[None, :]
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
        tl.store(pairs + pair, of_scores)
        tl.debug_barrier()  # other threads read them
        sums_of(
            y_rows, x_rows, pairs, of_y, of_y, columns, keys, begin, queries, hidden,
            block_k, 1, block_q, block_j, False,
        )  # fmt: skip
        tl.debug_barrier()
    tl.store(of_values + g * keys * width + own, sums, mask=own_inside)
