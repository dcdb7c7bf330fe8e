"""Loss and gradient of a chunk of logits in Triton. Logits are read twice: for the logarithm of the
sum of their exponentials (Milakov and Gimelshein 2018, arXiv:1805.02867), and for the gradient,
which takes their place where it has their dtype.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr, tensor

BLOCK = 4096  # classes at a time: 16 for each of 256 threads


def triton_chunk(
    logits: Tensor,
    target: Tensor,
    out: Tensor,
    train: bool,
    smoothing: float,
    other: float,
    pad: int | None,
    cap: float | None,
) -> tuple[Tensor, Tensor]:
    """What :func:`tfzoo.learning.cross_entropy.plain_chunk` gives; ``out`` may be ``logits``."""
    (t, v), dtype = logits.shape, torch.promote_types(logits.dtype, torch.float32)
    nll, loss = (torch.empty(t, dtype=dtype, device=logits.device) for _ in range(2))
    with torch.cuda.device_of(logits):
        chunk_kernel[(t,)](
            *(logits, target, out, nll, loss, v, logits.stride(0), out.stride(0)),
            **{"train": train, "smoothing": smoothing, "other": other, "pad": pad, "cap": cap},
            block=min(BLOCK, triton.next_power_of_2(v)),
            num_warps=8,
        )
    return nll, loss


@triton.jit
def capped(x: tensor, cap: constexpr) -> tensor:
    """``cap tanh(x / cap)``"""
    if cap is not None:
        x = cap - 2.0 * cap / (1.0 + tl.exp(x * (2.0 / cap)))
    return x


@triton.jit
def chunk_kernel(
    logits: tensor, target: tensor, out: tensor, nll: tensor, loss: tensor,
    classes: tensor, stride: tensor, out_stride: tensor,
    train: constexpr, smoothing: constexpr, other: constexpr, pad: constexpr, cap: constexpr,
    block: constexpr,
) -> None:  # fmt: skip
    """One token."""
    row = tl.program_id(0).to(tl.int64)
    logits, out = logits + row * stride, out + row * out_stride
    kind = nll.dtype.element_ty
    places = tl.arange(0, block)
    top = tl.full((block,), float("-inf"), kind)
    total = tl.zeros((block,), kind)
    sums = tl.zeros((block,), kind)
    for begin in range(0, classes, block):
        inside = begin + places < classes
        x = capped(tl.load(logits + begin + places, mask=inside, other=0.0).to(kind), cap)
        if cap is not None:
            sums += tl.where(inside, x, 0.0)
        x = tl.where(inside, x, float("-inf"))
        higher = tl.maximum(top, x)
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - base) + tl.exp(x - base)
        top = higher
    largest = tl.max(top, 0)
    log_z = largest + tl.log(tl.sum(total * tl.exp(top - largest), 0))
    y = tl.load(target + row)
    of_target = capped(tl.load(logits + y).to(kind), cap)
    tl.store(nll + row, log_z - of_target)
    found = log_z - (1.0 - smoothing - other) * of_target
    if pad is not None:
        found += other * capped(tl.load(logits + pad).to(kind), cap)
    if cap is not None:
        found -= other * tl.sum(sums, 0)
    tl.store(loss + row, found)
    if train:
        tl.debug_barrier()  # these two are read before they are written over
        for begin in range(0, classes, block):
            inside = begin + places < classes
            x = capped(tl.load(logits + begin + places, mask=inside, other=0.0).to(kind), cap)
            p = tl.exp(x - log_z) - (1.0 - smoothing - other) * (begin + places == y).to(kind)
            if pad is not None:
                p += other * (begin + places == pad).to(kind)
            if cap is not None:
                p = (p - other) * (1.0 - (x / cap) * (x / cap))
            tl.store(out + begin + places, p.to(out.dtype.element_ty), mask=inside)
