"""Cross entropy of a linear layer's logits, without ever holding all of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROWS = 512
"""Logits of so many tokens are held at a time: they stay in the processor's cache."""


def cross_entropy(hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float = 0.0, pad: int = 0) -> tuple[Tensor, Tensor]:
    """Sums over tokens of ``-sum_j q_j log p_j`` and of ``-log p_y``, in nats: ``(t d), (v d), (t) -> (), ()``.

    ``p = softmax(hidden weight^T)``; ``q`` is ``1 - smoothing`` at the target ``y``, 0 at ``pad`` and ``smoothing / (v - 2)`` elsewhere
    (Szegedy et al. 2016, section 7). The first sum has gradients. They are computed with the loss, chunk by chunk, in place of the
    logits, so that memory does not grow with ``t v``.
    """
    return _CrossEntropy.apply(hidden, weight, target, smoothing, pad, torch.is_grad_enabled())  # type: ignore[no-any-return, no-untyped-call]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float, pad: int, train: bool
    ) -> tuple[Tensor, Tensor]:
        t, v = len(target), len(weight)
        spread = smoothing / max(v - 2, 1)
        weight_sum = weight.float().sum(0)
        every = hidden.float() @ weight_sum if spread else None  # sum over classes of the logits, at the price of one
        loss = hidden.new_zeros((), dtype=torch.float32)
        nll = torch.zeros_like(loss)
        d_hidden = torch.empty_like(hidden) if train else None
        d_weight = torch.zeros_like(weight) if train else None
        for rows in range(0, t, ROWS):
            h, y = hidden[rows : rows + ROWS], target[rows : rows + ROWS, None]
            logits = (h @ weight.mT).float()
            at_target, at_pad = logits.gather(1, y), logits[:, pad].sum()
            log_p = logits.log_softmax(1)
            at_target_log_p = log_p.gather(1, y)
            nll -= at_target_log_p.sum()
            loss -= (1 - smoothing) * at_target_log_p.sum()
            if every is not None:
                normalizer = (at_target - at_target_log_p).sum()
                others = every[rows : rows + ROWS].sum() - at_target.sum() - at_pad
                loss += smoothing * normalizer - spread * others
            if d_hidden is not None and d_weight is not None:
                p = log_p.exp_().scatter_add_(1, y, torch.full_like(at_target, spread + smoothing - 1))
                p[:, pad] += spread
                p = p.to(h.dtype)
                d_hidden[rows : rows + ROWS] = p @ weight
                d_weight += p.mT @ h
        if d_hidden is not None and d_weight is not None:
            # What every class gets of `spread`, in one go instead of once a logit.
            d_hidden -= (spread * weight_sum).to(d_hidden.dtype)
            d_weight -= (spread * hidden.float().sum(0)).to(d_weight.dtype)
            ctx.save_for_backward(d_hidden, d_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:  # type: ignore[override]
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * scale.to(d_hidden.dtype), d_weight * scale.to(d_weight.dtype), None, None, None, None
