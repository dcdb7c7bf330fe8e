"""Scores by a small network, ``sum_j v_j tanh(a_qj + b_kj)``, without its hidden layer ever being
in memory.

With ``A = e^-2a`` and ``B = e^2b`` it is ``tanh(a + b) = 1 - 2 A / (A + B)``: exponentials once a
position, and for each pair of positions a sum and a quotient, one ``j`` at a time. Gradients need
``1 / (A + B)^2``, which is as cheap to make again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tfzoo.precision import at_least_fp32

BLOCK = 2**18  # pairs of positions that a CPU works on at a time: they should stay in its cache
SMALL = 2**16  # hidden numbers; below, the formula as it stands has nothing to save
NARROW = 48  # keys; below, a row of them is too short for the innermost loop, which then runs over texts and heads
LARGEST = 40.0  # exponent: squares of sums of such exponentials are still finite


def tanh_scores(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """``(b h q j), (b h k j), (h j) -> (b h q k)``, in fp32 or better."""
    a, b, v = at_least_fp32(a), at_least_fp32(b), at_least_fp32(v)
    if torch.compiler.is_compiling() or a.numel() * b.shape[-2] < SMALL:
        return (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v[:, None, None]).sum(-1)
    groups = v.expand(*a.shape[:2], -1)
    kernel = Narrow if b.shape[-2] < NARROW and a.device.type == "cpu" else Wide
    scores: Tensor = kernel.apply(a.flatten(0, 1), b.flatten(0, 1), groups.flatten(0, 1))  # type: ignore[no-untyped-call]
    return scores.view(*a.shape[:-1], b.shape[-2])


def exponentials(x: Tensor, factor: float, order: tuple[int, int, int]) -> Tensor:
    """``e^(factor x)``, finite, its axes in that order."""
    return torch.exp((x * factor).clamp_(-LARGEST, LARGEST).permute(order).contiguous())


def pieces(size: int, step: int) -> Iterator[slice]:
    """Slices of ``step`` that cover ``size``."""
    step = max(1, step)
    return (slice(start, start + step) for start in range(0, size, step))


class Wide(torch.autograd.Function):
    """``(g q j), (g k j), (g j) -> (g q k)``, ``g`` for texts and heads; the innermost loop runs
    over keys.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, v)
        rows, columns = exponentials(a, -2.0, (2, 0, 1)), exponentials(b, 2.0, (2, 0, 1))
        tops = rows * (-2.0 * v.t()[:, :, None])
        scores = v.sum(-1)[:, None, None].repeat(1, a.shape[1], b.shape[1])
        for g, q in blocks(scores):
            part = scores[g, q]
            total = torch.empty_like(part)
            for row, top, column in zip(
                rows[:, g, q, None], tops[:, g, q, None], columns[:, g, None], strict=True
            ):
                torch.add(row, column, out=total)
                part.addcdiv_(top, total)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b, v = ctx.saved_tensors
        rows, columns = exponentials(a, -2.0, (2, 0, 1)), exponentials(b, 2.0, (2, 0, 1))
        both = torch.stack((rows, rows.square()), 2)  # (j g 2 q)
        of_rows, of_columns = (
            torch.empty_like(rows),
            a.new_zeros(b.shape[2], b.shape[0], 2, b.shape[1]),
        )
        for g, q in blocks(grad):
            part = grad[g, q]
            over = torch.empty_like(part)
            sums = of_columns.new_empty(of_columns[:, g].shape)
            views = (
                rows[:, g, q, None],
                -columns[:, g, None],
                columns[:, g, :, None],
                both[:, g, :, q],
                of_rows[:, g, q, None],
                sums,
            )
            for row, minus, column, pair, to_rows, to_columns in zip(*views, strict=True):
                torch.ops.aten.mse_loss.out(row, minus, 0, out=over)  # (A + B)^2 in one pass
                torch.div(part, over, out=over)
                torch.bmm(over, column, out=to_rows)
                torch.bmm(pair, over, out=to_columns)
            of_columns[:, g].add_(sums)
        # sum of grad A / (A + B), from A (A + B) / (A + B)^2
        share = (of_columns[:, :, 1].sum(-1) + (of_rows * rows).sum(-1)).t()
        slope = 4.0 * v.t()[:, :, None]
        grad_a, grad_b = (
            of_rows.mul_(rows).mul_(slope),
            of_columns[:, :, 0].mul_(columns).mul_(slope),
        )
        return (
            grad_a.permute(1, 2, 0),
            grad_b.permute(1, 2, 0),
            grad.sum((1, 2))[:, None] - 2.0 * share,
        )


def blocks(scores: Tensor) -> Iterator[tuple[slice, slice]]:
    """Groups and queries, a cacheful at a time on a CPU, all at once elsewhere."""
    groups, queries, keys = scores.shape
    if scores.device.type != "cpu":
        return iter([(slice(None), slice(None))])
    step = max(1, BLOCK // keys)
    return ((g, q) for g in pieces(groups, step // queries) for q in pieces(queries, step))


class Narrow(torch.autograd.Function):
    """The same for short text; the innermost loop runs over texts and heads."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, v)
        rows, columns = (
            exponentials(a, -2.0, (2, 1, 0)),
            exponentials(b, 2.0, (2, 1, 0)),
        )  # (j q g), (j k g)
        tops = rows * (-2.0 * v.t()[:, None])
        scores = v.sum(-1).repeat(a.shape[1], b.shape[1], 1)
        for g in pieces(a.shape[0], BLOCK // (a.shape[1] * b.shape[1])):
            part = scores[..., g].contiguous()
            total = torch.empty_like(part)
            for row, top, column in zip(
                rows[:, :, None, g], tops[:, :, None, g], columns[:, None, :, g], strict=True
            ):
                torch.add(row, column, out=total)
                part.addcdiv_(top, total)
            scores[..., g] = part
        return scores.permute(2, 0, 1).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b, v = ctx.saved_tensors
        rows, columns = exponentials(a, -2.0, (2, 1, 0)), exponentials(b, 2.0, (2, 1, 0))
        grad_a, grad_b, share = (
            torch.empty_like(rows),
            torch.empty_like(columns),
            a.new_empty(v.shape[1], v.shape[0]),
        )
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
        return (
            grad_a.mul_(factor).permute(2, 1, 0),
            grad_b.mul_(factor).permute(2, 1, 0),
            grad.sum((1, 2))[:, None] - 2.0 * share.t(),
        )
