"""Scores by a small network, ``sum_j v_j tanh(a_qj + b_kj)``, without its hidden layer ever being
in memory.

With ``A = exp(-2a)`` and ``B = exp(2b)``, ``tanh(a + b) = 1 - 2 A / (A + B)``: exponentials are
computed once per position, and each pair of positions costs a sum and a quotient, one ``j`` at a
time. The gradient needs ``A B / (A + B)^2``, which the backward computes again.

``a - s`` and ``b + s`` give the same scores for every shift ``s``. The shift is chosen so that one
of the two lies around 0. Where its distance from 0 is at most ``centred``, clamping the other one
at ``largest`` changes nothing: the tanh is 1 to the last digit there. Where both range wider, the
tanh itself is computed (``Exact``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tfzoo.base.custom_autograd import custom_functions_apply, differentiable_backward
from tfzoo.base.precision import compute_dtype

BLOCK = 2**18  # pairs of positions that a CPU works on at a time: they should stay in its cache
SMALL = 2**16  # hidden numbers; below, the formula as it stands has nothing to save
NARROW = 48  # keys; below, a row is too short for the innermost loop, which then runs over groups
LIMITS = {torch.float32: (11.0, 20.0), torch.float64: (150.0, 175.0)}
"""``centred`` and ``largest``: tanh(largest - centred) is 1, and exp(4 largest) is finite."""


def tanh_scores(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """``(b h q j), (b h k j), (h j) -> (b h q k)``, in fp32 or better."""
    dtype = compute_dtype(a, b, v)
    a, b, v = a.to(dtype), b.to(dtype), v.to(dtype)
    if not custom_functions_apply(a, b, v) or a.numel() * b.shape[-2] < SMALL:
        return formula(a, b, v)
    groups = v.expand(*a.shape[:2], -1)
    scores: Tensor = TanhScores.apply(a.flatten(0, 1), b.flatten(0, 1), groups.flatten(0, 1))  # type: ignore[no-untyped-call]
    return scores.view(*a.shape[:-1], b.shape[-2])


def formula(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """``(... q j), (... k j), (... j) -> (... q k)`` by PyTorch's own operations."""
    return (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v[..., None, None, :]).sum(-1)


class TanhScores(torch.autograd.Function):
    """``(g q j), (g k j), (g j) -> (g q k)``, ``g`` for texts and heads."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, v)
        ctx.shift = common_shift(a, b) if a.device.type == "cpu" else None
        if ctx.shift is None:
            return exact_forward(a, b, v)
        forward = narrow_forward if b.shape[-2] < NARROW else wide_forward
        return forward(a - ctx.shift, b + ctx.shift, v)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, v = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_backward(formula, (a, b, v), grad)
        if ctx.shift is None:
            return exact_backward(a, b, v, grad)
        backward = narrow_backward if b.shape[-2] < NARROW else wide_backward
        return backward(a - ctx.shift, b + ctx.shift, v, grad)


def common_shift(a: Tensor, b: Tensor) -> Tensor | None:
    """What to subtract from ``a`` and add to ``b``, ``(g 1 j)``; None if both range too wide."""
    (low_a, high_a), (low_b, high_b) = (
        a.aminmax(dim=1, keepdim=True),
        b.aminmax(dim=1, keepdim=True),
    )
    range_a, range_b = high_a - low_a, high_b - low_b
    centred, _ = LIMITS[a.dtype]
    if not bool((torch.minimum(range_a, range_b) <= 2 * centred).all()):  # nor where one is NaN
        return None
    return torch.where(range_a <= range_b, (low_a + high_a) / 2, (low_b + high_b) / -2)


def exponentials(x: Tensor, factor: float, order: tuple[int, int, int]) -> Tensor:
    """``exp(factor x)``, finite, its axes in that order."""
    _, largest = LIMITS[x.dtype]
    bound = abs(factor) * largest
    return torch.exp((x * factor).clamp_(-bound, bound).permute(order).contiguous())


def pieces(size: int, step: int) -> Iterator[slice]:
    """Slices of ``step`` that cover ``size``."""
    step = max(1, step)
    return (slice(start, start + step) for start in range(0, size, step))


def blocks(scores: Tensor) -> Iterator[tuple[slice, slice]]:
    """Groups and queries, a cacheful at a time on a CPU, all at once elsewhere."""
    groups, queries, keys = scores.shape
    if scores.device.type != "cpu":
        return iter([(slice(None), slice(None))])
    step = max(1, BLOCK // keys)
    return ((g, q) for g in pieces(groups, step // queries) for q in pieces(queries, step))


def wide_forward(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """The innermost loop runs over keys."""
    rows, columns = exponentials(a, -2.0, (2, 0, 1)), exponentials(b, 2.0, (2, 0, 1))
    numerators = rows * (-2.0 * v.t()[:, :, None])
    scores = v.sum(-1)[:, None, None].repeat(1, a.shape[1], b.shape[1])
    for g, q in blocks(scores):
        part = scores[g, q]
        total = torch.empty_like(part)
        for row, numerator, column in zip(
            rows[:, g, q, None], numerators[:, g, q, None], columns[:, g, None], strict=True
        ):
            torch.add(row, column, out=total)
            part.addcdiv_(numerator, total)
    return scores


def wide_backward(a: Tensor, b: Tensor, v: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """With ``G = grad / (A + B)^2``: sums of ``G B`` over keys, of ``G A`` and ``G A^2`` over
    queries.
    """
    rows, columns = exponentials(a, -2.0, (2, 0, 1)), exponentials(b, 2.0, (2, 0, 1))
    powers = torch.stack((rows, rows.square()), 2)  # (j g 2 q)
    of_rows = torch.empty_like(rows)
    of_columns = a.new_zeros(b.shape[2], b.shape[0], 2, b.shape[1])
    for g, q in blocks(grad):
        part = grad[g, q]
        ratio = torch.empty_like(part)
        sums = of_columns.new_empty(of_columns[:, g].shape)
        views = (
            rows[:, g, q, None],
            -columns[:, g, None],
            columns[:, g, :, None],
            powers[:, g, :, q],
            of_rows[:, g, q, None],
            sums,
        )
        for row, minus, column, power, to_rows, to_columns in zip(*views, strict=True):
            torch.ops.aten.mse_loss.out(row, minus, 0, out=ratio)  # (A + B)^2 in one pass
            torch.div(part, ratio, out=ratio)
            torch.bmm(ratio, column, out=to_rows)
            torch.bmm(power, ratio, out=to_columns)
        of_columns[:, g].add_(sums)
    # The sum of grad A / (A + B) over all pairs, from G A (A + B).
    share = (of_columns[:, :, 1].sum(-1) + (of_rows * rows).sum(-1)).t()
    factor = 4.0 * v.t()[:, :, None]
    grad_a = of_rows.mul_(rows).mul_(factor)
    grad_b = of_columns[:, :, 0].mul_(columns).mul_(factor)
    grad_v = grad.sum((1, 2))[:, None] - 2.0 * share
    return grad_a.permute(1, 2, 0), grad_b.permute(1, 2, 0), grad_v


def narrow_forward(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """For short text: the innermost loop runs over groups."""
    rows, columns = exponentials(a, -2.0, (2, 1, 0)), exponentials(b, 2.0, (2, 1, 0))
    numerators = rows * (-2.0 * v.t()[:, None])  # (j q g)
    scores = v.sum(-1).repeat(a.shape[1], b.shape[1], 1)
    for g in pieces(a.shape[0], BLOCK // (a.shape[1] * b.shape[1])):
        part = scores[..., g].contiguous()
        total = torch.empty_like(part)
        for row, numerator, column in zip(
            rows[:, :, None, g], numerators[:, :, None, g], columns[:, None, :, g], strict=True
        ):
            torch.add(row, column, out=total)
            part.addcdiv_(numerator, total)
        scores[..., g] = part
    return scores.permute(2, 0, 1).contiguous()


def narrow_backward(a: Tensor, b: Tensor, v: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """With ``r = A / (A + B)``: sums of ``grad r`` and ``grad r (1 - r)``."""
    rows, columns = exponentials(a, -2.0, (2, 1, 0)), exponentials(b, 2.0, (2, 1, 0))
    grad_a, grad_b = torch.empty_like(rows), torch.empty_like(columns)
    share = a.new_empty(v.shape[1], v.shape[0])
    for g in pieces(a.shape[0], BLOCK // (a.shape[1] * b.shape[1])):
        part = grad[g].permute(1, 2, 0).contiguous()
        ratio, slope = torch.empty_like(part), torch.empty_like(part)
        views = (
            rows[:, :, None, g],
            columns[:, None, :, g],
            grad_a[..., g],
            grad_b[..., g],
            share[:, g],
        )
        for row, column, to_rows, to_columns, to_v in zip(*views, strict=True):
            torch.add(row, column, out=ratio)
            torch.div(row, ratio, out=ratio)
            torch.mul(part, ratio, out=slope)
            torch.sum(slope, (0, 1), out=to_v)
            slope.addcmul_(slope, ratio, value=-1.0)
            torch.sum(slope, 1, out=to_rows)
            torch.sum(slope, 0, out=to_columns)
    factor = 4.0 * v.t()[:, None]
    grad_v = grad.sum((1, 2))[:, None] - 2.0 * share.t()
    return grad_a.mul_(factor).permute(2, 1, 0), grad_b.mul_(factor).permute(2, 1, 0), grad_v


def exact_forward(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """By the tanh itself: slower, for any range."""
    scores = a.new_zeros(a.shape[0], a.shape[1], b.shape[1])
    for g, q in blocks(scores):
        part = scores[g, q]
        for j in range(v.shape[1]):
            hidden = (a[g, q, None, j] + b[g, None, :, j]).tanh_()
            part.addcmul_(hidden, v[g, None, None, j])
    return scores


def exact_backward(a: Tensor, b: Tensor, v: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of ``grad tanh`` and ``grad (1 - tanh^2)``."""
    grad_a, grad_b, grad_v = torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(v)
    for g, q in blocks(grad):
        part = grad[g, q]
        for j in range(v.shape[1]):
            hidden = (a[g, q, None, j] + b[g, None, :, j]).tanh_()
            slope = part * hidden
            grad_v[g, j] += slope.sum((1, 2))
            slope = torch.addcmul(part, slope, hidden, value=-1.0)
            grad_a[g, q, j] = slope.sum(2)
            grad_b[g, :, j] += slope.sum(1)
    return grad_a.mul_(v[:, None]), grad_b.mul_(v[:, None]), grad_v
