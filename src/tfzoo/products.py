"""Attention whose scores are inner products: ``softmax(scale * q k^T + bias) v``, by the fastest way there is where it runs."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from tfzoo.dropout import dropout as drop
from tfzoo.masks import Mask

SHORT = 256  # keys; below, plain products are the faster way on a CPU


def attend(q: Tensor, k: Tensor, v: Tensor, *, mask: Mask, bias: Tensor | None = None, scale: float = 1.0, dropout: float = 0.0) -> Tensor:
    """``(b h q c), (b h k c), (b h k e) -> (b h q e)``; ``bias`` broadcasts to ``(b h q k)``; zeros where nothing is visible."""
    if fused_is_faster(q, k, v, bias, dropout):
        return fused(q, k, v, mask, bias, scale, dropout)
    return plain(q, k, v, mask, bias, scale, dropout)


def fused_is_faster(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> bool:
    """Whether PyTorch's kernel wins here: on an accelerator, and on a CPU for long text where its flash kernel takes the job."""
    if q.device.type != "cpu":
        return True
    return k.shape[-2] >= SHORT and dropout == 0.0 and bias is None and k.shape[-1] == v.shape[-1]


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, scale: float, dropout: float) -> Tensor:
    """The same through ``F.scaled_dot_product_attention``."""
    lengths = q.shape[-2], k.shape[-2]
    # PyTorch aligns the triangle with the first key, which is right only where the first query stands there.
    if mask.causal and mask.keys is None and bias is None and mask.start == 0 and lengths[0] == lengths[1]:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scale, is_causal=True)
    dense, blind = mask.dense(*lengths, q.device), mask.blind(*lengths, q.device)
    visible = dense if dense is None or blind is None else dense | blind
    if bias is not None:
        bias = bias if visible is None else bias.masked_fill(~visible, float("-inf"))
        bias = bias.expand(*bias.shape[:-2], *lengths).to(q.dtype)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible if bias is None else bias, dropout_p=dropout, scale=scale)
    return out if blind is None else out.masked_fill(blind, 0.0)


def plain(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, scale: float, dropout: float) -> Tensor:
    """The same with plain batched products; softmax in fp32."""
    scores = ((q * scale) @ k.mT).float()
    if bias is not None:
        scores = scores + bias
    return drop(mask.softmax(scores).to(v.dtype), dropout) @ v
