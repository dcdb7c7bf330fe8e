"""Cross entropy of a linear layer's logits, without ever holding all of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROWS = 512
"""Logits of so many tokens are held at a time: they stay in the processor's cache."""


def cross_entropy(
    hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float = 0.0, pad: int = 0
) -> tuple[Tensor, Tensor]:
    """Sums over tokens of ``-sum_j q_j log p_j`` and of ``-log p_y``, in nats: ``(t d), (v d), (t)
    -> (), ()``.

    ``p = softmax(hidden weight^T)``; ``q`` is ``1 - smoothing`` at the target ``y``, 0 at ``pad``
    and ``smoothing / (v - 2)`` elsewhere (Szegedy et al. 2016, section 7). Only the first sum has
    gradients. They are computed with the loss, chunk by chunk, in place of the logits, so that
    memory does not grow with ``t v``.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    return CrossEntropy.apply(hidden, weight, target, smoothing, pad, torch.is_grad_enabled())  # type: ignore[no-any-return, no-untyped-call]


class CrossEntropy(torch.autograd.Function):
    """``sum_j q_j log p_j`` is taken apart into sums that cost no pass over the logits: that of all
    logits is ``h . sum_j w_j``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        pad: int,
        train: bool,
    ) -> tuple[Tensor, Tensor]:
        v = len(weight)
        spread = smoothing / max(v - 2, 1)
        weight_sum = weight.sum(0, dtype=torch.float32)
        loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
        nll = torch.zeros_like(loss)
        d_hidden = torch.empty_like(hidden) if train else None
        d_weight = torch.zeros_like(weight) if train else None
        chunk = hidden.new_empty(min(ROWS, len(target)), v)  # the logits, then their gradient
        chunk_p = torch.empty_like(chunk, dtype=torch.float32)  # log p, then p
        with torch.autocast(hidden.device.type, enabled=False):
            for start in range(0, len(target), ROWS):
                h, y = hidden[start : start + ROWS], target[start : start + ROWS, None]
                logits = torch.mm(h, weight.mT, out=chunk[: len(y)])
                log_p = torch.log_softmax(logits, 1, dtype=torch.float32, out=chunk_p[: len(y)])
                log_p_y, logit_y, logit_pad = (
                    log_p.gather(1, y),
                    logits.gather(1, y).float(),
                    logits[:, pad].float(),
                )
                nll -= log_p_y.sum()
                # - sum_j q_j log p_j = log Z - sum_j q_j logit_j, and log Z = logit_y - log p_y
                others = (h.float() @ weight_sum).sum() - logit_y.sum() - logit_pad.sum()
                loss += (
                    (logit_y - log_p_y).sum() - (1 - smoothing) * logit_y.sum() - spread * others
                )
                if d_hidden is not None and d_weight is not None:
                    p = log_p.exp_().scatter_add_(
                        1, y, torch.full_like(log_p_y, spread + smoothing - 1)
                    )
                    p[:, pad] += spread
                    p = p.to(h.dtype)
                    torch.mm(p, weight, out=d_hidden[start : start + ROWS])
                    d_weight.addmm_(p.mT, h)
        if d_hidden is not None and d_weight is not None:
            # What every class gets of `spread`, in one go instead of once a logit.
            d_hidden -= (spread * weight_sum).to(d_hidden.dtype)
            d_weight -= (spread * hidden.sum(0, dtype=torch.float32)).to(d_weight.dtype)
            ctx.save_for_backward(d_hidden, d_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(
        ctx: Any, scale: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None, None]:
        d_hidden, d_weight = ctx.saved_tensors
        return (
            d_hidden * scale.to(d_hidden.dtype),
            d_weight * scale.to(d_weight.dtype),
            None,
            None,
            None,
            None,
        )
