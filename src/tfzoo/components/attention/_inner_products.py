"""Attention whose scores are inner products, ``softmax(cap(scale * q k^T) + bias) v``, by the
fastest of three ways.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from tfzoo.base.functional import at_least_fp32, soft_cap
from tfzoo.base.functional import dropout as drop
from tfzoo.base.kernels import custom_functions_apply
from tfzoo.components.attention._flex import flex, flex_is_faster
from tfzoo.contracts import Attention
from tfzoo.masks import LANES, Mask, Pairs, dense, largest

SHORT = 128  # keys; with fewer, and a mask to be read, plain products are the faster way on a CPU
FEW = 2**14  # scores in training: with fewer, the calls of operators take longer than the numbers


class InnerProducts(Attention):
    """An attention that writes :meth:`factors`, whose inner products are its scores."""

    fuses = True

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        """Queries and keys, the latter from :meth:`prepare_keys`, and a scale: scores are ``scale
        q k^T``.
        """
        raise NotImplementedError

    def prepared_scores(self, q: Tensor, k: Tensor) -> Tensor:
        q, k, scale = self.factors(q, k)
        return (q * scale) @ k.mT

    def softmax_attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask,
        bias: Tensor | Pairs | None,
        temperature: float,
        dropout: float,
        cap: float | None = None,
    ) -> Tensor:
        q, k, scale = self.factors(q, k)
        return inner_product_attention(
            q.to(k.dtype), k, v, mask=mask, bias=bias, scale=scale / temperature, dropout=dropout,
            cap=cap,
        )  # fmt: skip


def inner_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask,
    bias: Tensor | Pairs | None = None,
    scale: float = 1.0,
    dropout: float = 0.0,
    cap: float | None = None,
) -> Tensor:
    """``(b h q c), (b h k c), (b h k e) -> (b h q e)``; ``bias`` broadcasts to ``(b h q k)``; zeros
    for a query that may look at no key.

    PyTorch's fused kernels cannot be differentiated twice (``create_graph=True``): its
    ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`` around the call chooses one that can.
    """
    if flex_is_faster(q, k, v, mask, bias, cap, dropout):
        return flex(q, k, v, mask, bias, scale, cap)
    bias = dense(bias, q.shape[-2], k.shape[-2], q.device)
    if cap is None and fused_is_faster(q, k, v, mask, bias, dropout):
        return fused(q, k, v, mask, bias, scale, dropout)
    scores = at_least_fp32((q * scale) @ k.mT)
    scores = scores if cap is None else soft_cap(scores, cap)
    return drop(mask.softmax(scores, bias, finite=True).to(v.dtype), dropout) @ v.contiguous()


def fused_is_faster(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float
) -> bool:
    """Whether to use ``F.scaled_dot_product_attention``: on an accelerator, and on a CPU for longer
    text, or few scores in training, where its flash kernel takes the job. That has no dropout, no
    gradient of a bias, no forward-mode and no second derivative.
    """
    if q.device.type != "cpu":
        return True
    if dropout > 0.0 or k.shape[-1] != v.shape[-1] or q.shape[-2] == 1:
        return False
    if bias is not None and bias.requires_grad:
        return False
    if torch.compiler.is_compiling():  # one graph for all lengths
        return True
    if not custom_functions_apply():
        return False
    plain = bias is None and needs_no_matrix(q, k, mask)
    few = torch.is_grad_enabled() and q.shape[:-1].numel() * k.shape[-2] <= FEW
    return few or k.shape[-2] >= (LANES + 1 if plain else SHORT)


def needs_no_matrix(q: Tensor, k: Tensor, mask: Mask) -> bool:
    """Whether the mask is "causal" or nothing. PyTorch aligns the triangle with the first key."""
    return (
        mask.keys is None
        and mask.allowed is None
        and (
            not mask.causal
            or (q.shape[-2] == k.shape[-2] and mask.first_query(q.shape[-2], k.shape[-2]) == 0)
        )
    )


def fused(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, scale: float, dropout: float
) -> Tensor:
    """By ``F.scaled_dot_product_attention``."""
    lengths = q.shape[-2], k.shape[-2]
    if bias is None and needs_no_matrix(q, k, mask):
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, scale=scale, is_causal=mask.causal
        )
    # PyTorch would make numbers of a boolean mask, for each layer again.
    attn_mask = mask.added(*lengths, q.dtype, q.device)
    empty = mask.once(("empty", *lengths, q.device), lambda: empty_queries(mask, q, k))
    if bias is not None:
        visible = mask.boolean(*lengths, q.device)
        bias = bias if visible is None else bias.masked_fill(~visible, float("-inf"))
        empty = largest(bias) == float("-inf")
        attn_mask = bias.masked_fill(empty, 0.0).to(q.dtype)
        attn_mask = attn_mask.expand(*attn_mask.shape[:-2], *lengths)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=attn_mask, dropout_p=dropout, scale=scale
    )
    return out if empty is None else torch.where(empty, 0.0, out)


def empty_queries(mask: Mask, q: Tensor, k: Tensor) -> Tensor | None:
    """:meth:`tfzoo.Mask.fully_masked`; None as well where a CPU, which has the values at hand, sees
    that there is none.
    """
    empty = mask.fully_masked(q.shape[-2], k.shape[-2], q.device)
    if empty is None or not empty.is_cpu or not custom_functions_apply():
        return empty
    return empty if type(empty) is not Tensor or empty.any() else None
