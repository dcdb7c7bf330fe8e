"""Attention whose scores are inner products, through FlexAttention: what PyTorch's other kernels
cannot fuse, which are a soft cap, a bias that is a function of positions, and masks that are
functions, such as windows, packed texts and prefixes. No ``(q k)`` is in memory on a GPU.
"""

from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from tfzoo.base import kernels
from tfzoo.base.functional import soft_cap
from tfzoo.base.kernels import custom_functions_apply
from tfzoo.masks import Mask, Pairs, pairs

SHORT = 256  # queries or keys: two blocks of a mask, which the compiler would take for a constant
NARROWEST = 16  # channels of a head that its kernels take


def flex_is_faster(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    bias: Pairs | Tensor | None,
    cap: float | None,
    dropout: float,
) -> bool:
    """Whether to use FlexAttention: on CUDA, for longer text, where
    ``F.scaled_dot_product_attention`` cannot fuse what is asked for. It has no dropout, no float64
    and no second derivative.
    """
    return (
        (cap is not None or isinstance(bias, Pairs) or isinstance(mask.allowed, Pairs))
        and dropout == 0.0
        and q.dtype == k.dtype == v.dtype != torch.float64
        and min(q.shape[-1], v.shape[-1]) >= NARROWEST
        and min(q.shape[-2], k.shape[-2]) > SHORT
        and custom_functions_apply()
        and kernels.flex_attention_applies(q, k, v)
    )


def flex(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    bias: Pairs | Tensor | None = None,
    scale: float = 1.0,
    cap: float | None = None,
) -> Tensor:
    """``(b h q c), (b h k c), (b h k e) -> (b h q e)``; zeros for a query that may look at no key.
    Off CUDA, PyTorch computes it from all scores, forward alone.
    """
    add = None if bias is None else pairs(bias)
    # As a tensor: the compiler takes a number for one that changes from call to call.
    most = None if cap is None else torch.full((), cap, device=q.device)

    def score(x: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        x = x if most is None else soft_cap(x, most)
        return x if add is None else x + add(b, h, i, j)

    from torch.nn.attention.flex_attention import BlockMask  # takes the compiler with it

    attend, find_blocks = library(compiled=q.is_cuda)
    lengths = q.shape[-2], k.shape[-2]

    def blocks() -> BlockMask | None:
        if (seen := mask.pairs(*lengths)) is None:
            return None
        part, parts, full, fulls = find_blocks(seen, *lengths, q.device)
        return BlockMask.from_kv_blocks(
            part, parts, full, fulls, mask_mod=seen, seq_lengths=lengths
        )

    found = mask.once(("blocks", *lengths, q.device), blocks)
    out: Tensor = attend(q, k, v, score_mod=score, block_mask=found, scale=scale)
    return out


@cache
def library(compiled: bool) -> tuple[Any, Any]:
    """FlexAttention and :func:`seen_blocks`; compiled, once for all lengths."""
    from torch.nn.attention.flex_attention import flex_attention

    if not compiled:
        return flex_attention, seen_blocks
    compile = partial(torch.compile, dynamic=True)
    return compile(flex_attention), compile(seen_blocks)


def seen_blocks(visible: Pairs, q: int, k: int, device: torch.device) -> tuple[Tensor | None, ...]:
    """For each block of queries, the number and the indices of the blocks of keys that are seen in
    part, and of those that are seen in full.
    """
    from torch.nn.attention.flex_attention import create_block_mask

    rows, heads = (n if n > 1 else None for n in (visible.rows, visible.heads))
    # A function that is made here: the compiler would take one from outside for a constant.
    found = create_block_mask(
        lambda b, h, i, j: visible(b, h, i, j), rows, heads, q, k, device=device
    )
    return found.kv_num_blocks, found.kv_indices, found.full_kv_num_blocks, found.full_kv_indices
