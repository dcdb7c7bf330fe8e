"""Attention by a small network on a CPU, from scores to output one cacheful at a time: keys that no
query of it may look at cost nothing, and mask, softmax and dropout find the scores in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tfzoo.attention._tanh_scores import common_shift, formula, large, pieces, prepared
from tfzoo.base.custom_autograd import custom_functions_apply, differentiable_backward
from tfzoo.base.dropout import STEPS, apply, draw
from tfzoo.base.precision import compute_dtype
from tfzoo.masks import Mask

BLOCK = 2**20  # pairs of positions that are worked on at a time: they should stay in the cache
SHORT = 48  # keys; below, the scores of a text are in the cache anyway
QUERIES = 64  # of a block at most: fewer leave out more of what a causal mask hides


def tanh_attention(
    a: Tensor, b: Tensor, v: Tensor, values: Tensor, mask: Mask, dropout: float
) -> Tensor | None:
    """``softmax(sum_j v_j tanh(a_qj + b_kj)) values``: ``(b h q j), (b h k j), (h j), (b h k e) ->
    (b h q e)``; None where scores, mask, softmax and dropout one after the other are the way.
    """
    q, k = a.shape[-2], b.shape[-2]
    steps = round(dropout * STEPS)
    if (
        not custom_functions_apply(a, b, v, values)  # first: a traced graph asks for no lengths
        or a.device.type != "cpu"
        or k < SHORT
        or not large(a, b)
        or (dropout != 0.0) != (0 < steps < STEPS)
    ):
        return None
    dtype = compute_dtype(a, b, v, values)
    groups = (x.to(dtype).flatten(0, 1) for x in (a, b, v.expand(len(a), -1, -1), values))
    out: Tensor = TanhAttention.apply(*groups, mask, len(a), steps, torch.is_grad_enabled())  # type: ignore[no-untyped-call]
    out, empty = out.unflatten(0, a.shape[:2]), mask.fully_masked(q, k, a.device)
    return (out if empty is None else out.masked_fill(empty, 0.0)).to(values.dtype)


class Block(NamedTuple):
    """What is computed at a time; ``groups`` are these texts' heads."""

    texts: slice
    heads: slice
    groups: slice
    queries: slice
    keys: slice


def blocks(shape: tuple[int, int, int, int], visible: Tensor | None) -> Iterator[Block]:
    """Of ``(b h q k)``, without keys before the first, and behind the last, that any query of a
    block may look at.
    """
    texts, heads, queries, keys = shape
    rows = min(queries, QUERIES, max(1, BLOCK // keys))
    groups = max(1, BLOCK // (rows * keys))
    for t in pieces(texts, groups // heads):
        for h in pieces(heads, groups):
            g = slice(t.start * heads + h.start, (t.stop - 1) * heads + h.stop)
            for q in pieces(queries, rows):
                k = slice(0, keys)
                if visible is not None:
                    seen = part(visible, t, h, q).flatten(0, -2).any(0)
                    if not seen.all():  # holds of shapes without data, whose memory is estimated
                        places = seen.nonzero()
                        k = slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0)
                if k.stop:
                    yield Block(t, h, g, q, k)


def part(x: Tensor, *places: slice) -> Tensor:
    """These places of the first axes, and all of an axis of one."""
    return x[tuple(p if n > 1 else slice(None) for n, p in zip(x.shape, places, strict=False))]


class TanhAttention(torch.autograd.Function):
    """``(g q j), (g k j), (g j), (g k e) -> (g q e)``, ``g`` for texts and heads. For the backward
    it keeps the weights of each block, and in a byte each what dropout leaves of them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        v: Tensor,
        values: Tensor,
        mask: Mask,
        texts: int,
        steps: int,
        keep: bool,
    ) -> Tensor:
        q, k = a.shape[1], b.shape[1]
        shown = mask.shown(q, k, a.device)
        ctx.added = a.new_zeros(1, 1, 1, 1)
        if shown is not None:
            ctx.added = a.new_zeros(shown.shape).masked_fill_(~shown, float("-inf"))
        ctx.shape = texts, len(a) // texts, q, k
        ctx.blocks = list(blocks(ctx.shape, mask.boolean(q, k, a.device)))
        ctx.shift, ctx.scale = common_shift(a, b), STEPS / (STEPS - steps)
        network, out = prepared(a, b, v, ctx.shift), values.new_zeros(*a.shape[:2], values.shape[2])
        kept = list[Tensor | None]()
        for block in ctx.blocks:
            scores = initial(ctx.added, block)
            network.add_scores(scores, *block[2:])
            weights = scores.softmax(-1)
            drawn = draw(weights, steps) if steps else None
            dropped = weights if drawn is None else apply(weights, drawn, ctx.scale)
            torch.bmm(dropped, values[block.groups, block.keys], out=out[block[2:4]])
            kept += (weights, drawn) if keep else ()
        ctx.save_for_backward(a, b, v, values, *kept)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, v, values, *kept = ctx.saved_tensors
        pairs = zip(ctx.blocks, kept[::2], kept[1::2], strict=True)
        if torch.is_grad_enabled():
            factor = a.new_zeros(ctx.shape).flatten(0, 1)
            for block, _, drawn in pairs:
                factor[block[2:]] = 1.0 if drawn is None else drawn * ctx.scale

            def plain(a: Tensor, b: Tensor, v: Tensor, values: Tensor) -> Tensor:
                scores: Tensor = formula(a, b, v) + ctx.added.expand(ctx.shape).flatten(0, 1)
                return scores.softmax(-1).mul(factor) @ values

            return *differentiable_backward(plain, (a, b, v, values), grad), None, None, None, None
        network, of_values = prepared(a, b, v, ctx.shift), torch.zeros_like(values)
        for block, weights, drawn in pairs:
            slope, dropped = grad[block[2:4]], weights
            of_scores = slope.new_empty(weights.shape)
            keys = block.groups, block.keys
            torch.bmm(slope, values[keys].mT, out=of_scores)
            if drawn is not None:
                of_scores, dropped = (apply(x, drawn, ctx.scale) for x in (of_scores, weights))
            torch.baddbmm(of_values[keys], dropped.mT, slope, out=of_values[keys])
            of_scores.mul_(weights)
            of_scores.addcmul_(weights, of_scores.sum(-1, keepdim=True), value=-1.0)
            network.add_gradients(of_scores, *block[2:])
        return *network.gradients(), of_values, None, None, None, None


def initial(added: Tensor, block: Block) -> Tensor:
    """What the mask adds to the scores of a block, 0 or -inf: ``(b|1 h|1 q|1 k|1) -> (g q k)``."""
    t, h, _, q, k = block
    sizes = [one.stop - one.start for one in (t, h, q, k)]
    return added.new_empty(sizes).copy_(part(added, t, h, q, k)).flatten(0, 1)
