"""Converts the masks of ``torch.nn.MultiheadAttention`` to a :class:`Mask` and a bias."""

from __future__ import annotations

import torch
from torch import Tensor

from tfzoo.errors import BadOption
from tfzoo.masks import Mask


def mask_and_bias(
    q: Tensor,
    k: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    causal: bool,
    dtype: torch.dtype,
) -> tuple[Mask, Tensor | None]:
    """For queries ``(b h q c)`` and keys ``(b h k c)``, return the mask, and the bias to add to the
    scores, ``(b|1 h|1 q|1 k)`` of ``dtype``.

    Args:
        key_padding_mask: ``(b k)``, or ``(k)`` for a batch of one. As ``attn_mask``, it is either
            boolean, True where a key is hidden, or numbers to add to the scores.
        attn_mask: ``(q k)`` or ``(b*h q k)``.
        causal: hide later keys.

    Raises:
        BadOption: a mask of another shape or dtype.
    """
    (b, h, queries, _), keys = q.shape, k.shape[2]
    valid: Tensor | None = None
    allowed: Tensor | None = None
    bias: Tensor | None = None
    if key_padding_mask is not None:
        shape: tuple[int, ...] = (b, keys) if key_padding_mask.dim() == 2 or b > 1 else (keys,)
        check_mask("key_padding_mask", key_padding_mask, shape)
        key_padding_mask = key_padding_mask.view(b, keys)
        if key_padding_mask.dtype == torch.bool:
            valid = ~key_padding_mask
        else:
            bias = key_padding_mask[:, None, None]
    if attn_mask is not None:
        shape = (b * h, queries, keys) if attn_mask.dim() == 3 else (queries, keys)
        check_mask("attn_mask", attn_mask, shape)
        heads = (b, h) if attn_mask.dim() == 3 else (1, 1)
        attn_mask = attn_mask.reshape(*heads, queries, keys)
        if attn_mask.dtype == torch.bool:
            allowed = ~attn_mask
        else:
            bias = attn_mask if bias is None else bias + attn_mask
    mask = Mask(causal, valid, start=0, allowed=allowed)
    return mask, None if bias is None else bias.to(dtype)


def check_mask(name: str, mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise BadOption unless a mask is boolean or numbers, and of this shape."""
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise BadOption(
            f"MultiheadAttention: {name} must be boolean, True at what is hidden, or numbers that "
            f"are added to the scores, not {mask.dtype}"
        )
    if mask.shape != shape:
        raise BadOption(f"MultiheadAttention: {name} is {tuple(mask.shape)}, not {tuple(shape)}")
