"""A sum and its RMS or layer norm in Triton: one kernel forward, and one backward that adds the
gradient of the sum to that of the norm.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr, tensor

from tfzoo.base.custom_autograd import differentiable_backward
from tfzoo.base.precision import compute_dtype

PROGRAMS = 512  # of the backward, each of which adds up its rows' gradients of the weights


class SumAndNorm(torch.autograd.Function):
    """``(... d), (... d) or None, (d), (d) or None -> (... d), (... d)``: the sum, and its norm,
    centred (layer norm) or not (RMS norm). Statistics in fp32 or better.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        branch: Tensor | None,
        weight: Tensor,
        bias: Tensor | None,
        eps: float,
        centre: bool,
    ) -> tuple[Tensor, Tensor]:
        width, wide = weight.numel(), compute_dtype(x, weight)
        if branch is None:
            total, read = x, (x.contiguous(),) * 2
        else:
            dtype = torch.promote_types(x.dtype, branch.dtype)
            read = x.contiguous(), branch.contiguous()
            total = torch.empty(x.shape, dtype=dtype, device=x.device)
        out = torch.empty(x.shape, dtype=total.dtype, device=x.device)
        mean, rstd = (torch.empty(x.shape[:-1], dtype=wide, device=x.device) for _ in range(2))
        with torch.cuda.device_of(x):
            forward_kernel[(rstd.numel(),)](
                *(*read, weight, weight if bias is None else bias, total, out, mean, rstd, width),
                eps=eps,
                **{"sums": branch is not None, "centre": centre, "biased": bias is not None},
                block=triton.next_power_of_2(width),
            )
        kept = read[0] if branch is None else total
        ctx.save_for_backward(kept, weight, bias, mean, rstd)
        ctx.eps, ctx.centre, ctx.sums = eps, centre, branch is not None
        ctx.set_materialize_grads(False)
        return total, out

    @staticmethod
    def backward(ctx: Any, of_sum: Tensor | None, grad: Tensor | None) -> tuple[Tensor | None, ...]:
        total, weight, bias, mean, rstd = ctx.saved_tensors
        grad = torch.zeros_like(total) if grad is None else grad.contiguous()
        if torch.is_grad_enabled():
            of_sum = torch.zeros_like(total) if of_sum is None else of_sum

            def plain(total: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
                if ctx.centre:
                    out = F.layer_norm(total, weight.shape, weight, bias, ctx.eps)
                else:
                    out = F.rms_norm(total, weight.shape, weight, ctx.eps)
                return torch.stack((total, out))

            given = (total, weight) if bias is None else (total, weight, bias)
            slopes = differentiable_backward(plain, given, torch.stack((of_sum, grad)))
            found = (*slopes, None)[:3]
            return found[0], found[0] if ctx.sums else None, found[1], found[2], None, None
        rows, width = rstd.numel(), weight.numel()
        each = triton.cdiv(rows, PROGRAMS)
        programs = triton.cdiv(rows, each)
        of_total = torch.empty_like(total, memory_format=torch.contiguous_format)
        parts = [rstd.new_empty(programs, width) for _ in range(2)]
        read = total, weight, mean, rstd, grad, grad if of_sum is None else of_sum.contiguous()
        with torch.cuda.device_of(total):
            backward_kernel[(programs,)](
                *(*read, of_total, *parts, rows, width, each),
                **{"joined": of_sum is not None, "centre": ctx.centre, "biased": bias is not None},
                block=triton.next_power_of_2(width),
            )
        of_weight = parts[0].sum(0)
        of_bias = None if bias is None else parts[1].sum(0)
        return of_total, of_total if ctx.sums else None, of_weight, of_bias, None, None


@triton.jit
def forward_kernel(
    x: tensor, branch: tensor, weight: tensor, bias: tensor,
    total: tensor, out: tensor, mean: tensor, rstd: tensor, width: tensor,
    eps: constexpr, sums: constexpr, centre: constexpr, biased: constexpr, block: constexpr,
) -> None:  # fmt: skip
    """One token."""
    row = tl.program_id(0).to(tl.int64)
    kind = rstd.dtype.element_ty
    channel = tl.arange(0, block)
    inside, place = channel < width, row * width + channel
    y = tl.load(x + place, mask=inside, other=0.0).to(kind)
    if sums:
        y += tl.load(branch + place, mask=inside, other=0.0).to(kind)
        rounded = y.to(total.dtype.element_ty)  # what the backward reads, too
        tl.store(total + place, rounded, mask=inside)
        y = rounded.to(kind)
    if centre:
        average = tl.sum(y, 0) / width
        tl.store(mean + row, average)
        y = tl.where(inside, y - average, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(y * y, 0) / width + eps)
    tl.store(rstd + row, inverse)
    y = y * inverse * tl.load(weight + channel, mask=inside, other=0.0).to(kind)
    if biased:
        y += tl.load(bias + channel, mask=inside, other=0.0).to(kind)
    tl.store(out + place, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def backward_kernel(
    total: tensor, weight: tensor, mean: tensor, rstd: tensor, grad: tensor, of_sum: tensor,
    of_total: tensor, of_weight: tensor, of_bias: tensor,
    rows: tensor, width: tensor, each: tensor,
    joined: constexpr, centre: constexpr, biased: constexpr, block: constexpr,
) -> None:  # fmt: skip
    """``each`` tokens, and the sums over them for weight and bias."""
    program = tl.program_id(0)
    kind = rstd.dtype.element_ty
    channel = tl.arange(0, block)
    inside = channel < width
    w = tl.load(weight + channel, mask=inside, other=0.0).to(kind)
    weights, biases = tl.zeros((block,), kind), tl.zeros((block,), kind)
    for row in range(program * each, tl.minimum(program * each + each, rows)):
        place = tl.cast(row, tl.int64) * width + channel
        x = tl.load(total + place, mask=inside, other=0.0).to(kind)
        g = tl.load(grad + place, mask=inside, other=0.0).to(kind)
        inverse = tl.load(rstd + row)
        if centre:
            x = tl.where(inside, x - tl.load(mean + row), 0.0)
        x = x * inverse
        weights += g * x
        if biased:
            biases += g
        g = g * w
        slope = g - x * (tl.sum(g * x, 0) / width)
        if centre:
            slope -= tl.sum(g, 0) / width
        slope = slope * inverse
        if joined:
            slope += tl.load(of_sum + place, mask=inside, other=0.0).to(kind)
        tl.store(of_total + place, slope.to(of_total.dtype.element_ty), mask=inside)
    sums = program.to(tl.int64) * width + channel
    tl.store(of_weight + sums, weights, mask=inside)
    if biased:
        tl.store(of_bias + sums, biases, mask=inside)
