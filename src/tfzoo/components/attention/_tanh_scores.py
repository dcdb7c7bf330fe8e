"""Scores by a small network, ``sum_j v_j tanh(a_qj + b_kj)``, without its hidden layer ever being
in memory.

With ``A = exp(-2a)`` and ``B = exp(2b)``, ``tanh(a + b) = 1 - 2 A / (A + B)``: exponentials are
computed once per position, and each pair of positions costs a sum and a quotient, one ``j`` at a
time. The gradient needs ``A B / (A + B)^2``, which the backward computes again.

``a - s`` and ``b + s`` give the same scores for every shift ``s``. The shift is chosen so that one
of the two lies around 0. Where its distance from 0 is at most ``centred``, clamping the other one
at ``largest`` changes nothing: the tanh is 1 to the last digit there. Where both range wider, and
on other devices than a CPU, the formula itself is computed (``Formula``), a block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tfzoo.base.functional import compute_dtype
from tfzoo.base.kernels import custom_functions_apply, differentiable_backward

BLOCK = 2**18  # numbers that a CPU works on at a time: they should stay in its cache
LARGE_BLOCK = 2**25  # the same of an accelerator, whose memory they take
ROWS = 64  # queries of a block with a causal mask: fewer leave out more
SMALL = 2**16  # hidden numbers; below, the formula as it stands has nothing to save
LIMITS = {torch.float32: (11.0, 20.0), torch.float64: (150.0, 175.0)}
"""``centred`` and ``largest``: tanh(largest - centred) is 1, and exp(4 largest) is finite."""


def tanh_scores(a: Tensor, b: Tensor, v: Tensor, first: int | None = None) -> Tensor:
    """``(b h q j), (b h k j), (h j) -> (b h q k)``, in fp32 or better. With ``first``, scores of
    query ``i`` with keys behind ``first + i`` need not be computed, as a causal mask hides them.
    """
    dtype = compute_dtype(a, b, v)
    a, b, v = a.to(dtype), b.to(dtype), v.to(dtype)
    if not custom_functions_apply() or a.numel() * b.shape[-2] < SMALL:
        return formula(a, b, v)
    groups = v.expand(*a.shape[:2], -1)
    scores: Tensor = TanhScores.apply(a.flatten(0, 1), b.flatten(0, 1), groups.flatten(0, 1), first)  # type: ignore[no-untyped-call]
    return scores.view(*a.shape[:-1], b.shape[-2])


def formula(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """``(... q j), (... k j), (... j) -> (... q k)`` by PyTorch's own operations."""
    return (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v[..., None, None, :]).sum(-1)


class TanhScores(torch.autograd.Function):
    """``(g q j), (g k j), (g j) -> (g q k)``, ``g`` for texts and heads."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, v: Tensor, first: int | None) -> Tensor:
        ctx.save_for_backward(a, b, v)
        ctx.shift, ctx.first = common_shift(a, b), first
        network, scores = prepared(a, b, v, ctx.shift), a.new_zeros(*a.shape[:2], b.shape[1])
        for block in blocks(scores, first, network.block):
            network.add_scores(scores[block], *block)
        return scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, v = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *differentiable_backward(formula, (a, b, v), grad), None
        network = prepared(a, b, v, ctx.shift)
        for block in blocks(grad, ctx.first, network.block):
            network.add_gradients(grad[block], *block)
        return *network.gradients(), None


def prepared(a: Tensor, b: Tensor, v: Tensor, shift: Tensor | None) -> Quotients | Formula:
    """What computes scores and their gradients, block by block."""
    return Formula(a, b, v) if shift is None else Quotients(a - shift, b + shift, v)


def common_shift(a: Tensor, b: Tensor) -> Tensor | None:
    """What to subtract from ``a`` and add to ``b``, ``(g 1 j)``; None if both range too wide, and
    on another device than a CPU, which has fast tanhs.
    """
    if a.device.type != "cpu":
        return None
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
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def blocks(scores: Tensor, first: int | None, most: int) -> Iterator[tuple[slice, slice, slice]]:
    """Groups, queries and keys of at most so many pairs, without keys that are behind all queries
    of a block.
    """
    groups, queries, keys = scores.shape
    rows = min(queries, max(1, most // keys), queries if first is None else ROWS)
    return (
        (g, q, slice(0, keys if first is None else min(keys, first + q.stop)))
        for q in pieces(queries, rows)
        if first is None or first + q.stop > 0
        for g in pieces(groups, most // (rows * keys))
    )


class Quotients:
    """By exponentials; the innermost loop runs over keys.

    The gradient needs, with ``G = grad / (A + B)^2``, sums of ``G B`` over keys, of ``G A`` and
    ``G A^2`` over queries.
    """

    def __init__(self, a: Tensor, b: Tensor, v: Tensor) -> None:
        self.rows, self.columns = exponentials(a, -2.0, (2, 0, 1)), exponentials(b, 2.0, (2, 0, 1))
        self.v, self.block = v, BLOCK

    def add_scores(self, scores: Tensor, g: slice, q: slice, k: slice) -> None:
        rows, v = self.rows[:, g, q, None], self.v[g]
        numerators = rows * (-2.0 * v.t()[:, :, None, None])
        scores.add_(v.sum(-1)[:, None, None])
        total = torch.empty_like(scores)
        for row, numerator, column in zip(
            rows, numerators, self.columns[:, g, None, k], strict=True
        ):
            torch.add(row, column, out=total)
            scores.addcdiv_(numerator, total)

    @cached_property
    def sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of ``G B``, of ``G A`` and ``G A^2``, and of ``grad``."""
        j, g, k = self.columns.shape
        zeros = self.columns.new_zeros
        return zeros(self.rows.shape), zeros(j, g, 2, k), zeros(self.v.shape)

    def add_gradients(self, grad: Tensor, g: slice, q: slice, k: slice) -> None:
        rows, columns = self.rows[:, g, q], self.columns[:, g, k]
        of_rows, of_columns, of_v = self.sums
        ratio = torch.empty_like(grad)
        sums = columns.new_empty(len(columns), len(grad), 2, grad.shape[-1])
        views = (
            rows[..., None],
            -columns[:, :, None],
            columns[:, :, None],
            torch.stack((rows, rows.square()), 2),
            of_rows[:, g, None, q],
            sums,
        )
        for row, minus, column, power, to_rows, to_columns in zip(*views, strict=True):
            torch.ops.aten.mse_loss.out(row, minus, 0, out=ratio)  # (A + B)^2 in one pass
            torch.div(grad, ratio, out=ratio)
            torch.bmm(column, ratio.mT, out=to_rows)  # the other way around is 8 times slower
            torch.bmm(power, ratio, out=to_columns)
        of_columns[:, g, :, k] += sums
        of_v[g] += grad.sum((1, 2))[:, None]

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        # The sum of grad A / (A + B) over all pairs, from G A (A + B).
        of_rows, of_columns, of_v = self.sums
        share = (of_columns[:, :, 1].sum(-1) + (of_rows * self.rows).sum(-1)).t()
        factor = 4.0 * self.v.t()[:, :, None]
        of_a = of_rows.mul_(self.rows).mul_(factor)
        of_b = of_columns[:, :, 0].mul_(self.columns).mul_(factor)
        return of_a.permute(1, 2, 0), of_b.permute(1, 2, 0), of_v - 2.0 * share


class Formula:
    """By :func:`formula`: slower on a CPU, for any range."""

    def __init__(self, a: Tensor, b: Tensor, v: Tensor) -> None:
        self.inputs = a, b, v
        self.block = (BLOCK if a.device.type == "cpu" else LARGE_BLOCK) // v.shape[1]

    @cached_property
    def sums(self) -> list[Tensor]:
        return [torch.zeros_like(x) for x in self.inputs]

    def add_scores(self, scores: Tensor, g: slice, q: slice, k: slice) -> None:
        a, b, v = self.inputs
        scores.add_(formula(a[g, q], b[g, k], v[g]))

    def add_gradients(self, grad: Tensor, g: slice, q: slice, k: slice) -> None:
        places = (g, q), (g, k), (g,)
        each = zip(self.inputs, places, strict=True)
        with torch.enable_grad():
            part = [x[place].detach().requires_grad_() for x, place in each]
            found = torch.autograd.grad(formula(*part), part, grad)
        for total, place, more in zip(self.sums, places, found, strict=True):
            total[place] += more

    def gradients(self) -> list[Tensor]:
        return self.sums
