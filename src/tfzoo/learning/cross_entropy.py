"""Cross entropies with smoothed labels: of logits, and fused with the output projection, computed
in chunks of tokens.
"""

from typing import Any

import torch
from torch import Tensor

from tfzoo.base.functional import without_autocast
from tfzoo.base.linear import goes_by_onednn, linear
from tfzoo.errors import BadOption


def share(smoothing: float, classes: int, pad: int | None = None) -> float:
    """What smoothing gives each class that is neither the label nor padding."""
    return smoothing / max(classes - (1 if pad is None else 2), 1)


def class_losses(
    logits: Tensor, label: Tensor, smoothing: float = 0.0, pad: int | None = None
) -> tuple[Tensor, Tensor]:
    """``-sum_j q_j log p_j`` and ``-log p_y`` of each text, in nats: ``(b c), (b) -> (b), (b)``, in
    fp32, or float64 for float64 logits.

    ``q`` is ``1 - smoothing`` at the label ``y``, 0 at ``pad`` and ``smoothing / (c - 1)``
    elsewhere, as in tensor2tensor, the code of Vaswani et al. 2017. Szegedy et al. 2016 (section
    7), whose idea it is, and ``F.cross_entropy`` give ``smoothing / c`` to every class, the label
    too: they have with ``smoothing`` what this has with ``smoothing (c - 1) / c``.
    """
    log_p = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    nll = -log_p.gather(-1, label[:, None])[:, 0]
    others = -log_p.sum(-1) - nll
    if pad is not None:
        others = others + log_p[:, pad]
    return (1 - smoothing) * nll + share(smoothing, logits.shape[-1], pad) * others, nll


def constant_loss(counts: Tensor, smoothing: float = 0.0, pad: int | None = None) -> float:
    """The smallest mean loss that one prediction for all labels reaches, in nats: the entropy of
    the labels, of which there are ``counts`` ``(c)``, as the loss smooths them, where ``pad`` gets
    nothing. Without smoothing it is the entropy of their frequencies.
    """
    p = counts.double() / counts.sum()
    q = (1 - smoothing) * p + share(smoothing, len(p), pad) * (1 - p)
    if pad is not None:
        q[pad] = 0.0
    return float(torch.special.entr(q).sum())


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float = 0.0,
    pad: int | None = None,
    cap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The sum over tokens of ``-sum_j q_j log p_j``, and ``-log p_y`` of each token, in nats: ``(t
    d), (v d), (t) -> (), (t)``.

    ``p = softmax(hidden weight^T)``, of ``c tanh(logits / c)`` with a ``cap`` ``c``; ``q`` is ``1 -
    smoothing`` at the target ``y``, 0 at ``pad`` and ``smoothing / (v - 2)`` elsewhere, as in
    OpenNMT-py and JoeyNMT; without ``pad``, ``smoothing / (v - 1)``; see :func:`class_losses`. Only
    the sum has gradients. These have none, and ``torch.func`` takes none of it: second derivatives
    are those of :func:`cross_entropy_of_logits`.

    The gradients are computed together with the loss, one chunk of tokens at a time, so that the
    memory for logits does not grow with ``t``. Losses and gradients are accumulated in fp32, or in
    float64 for float64 inputs. On CUDA the factors of the matrix products have the dtype of the
    inputs or of autocast. (``F.linear_cross_entropy`` of PyTorch 2.13 is as fast, but rounds the
    loss to the dtype of the inputs.)
    """
    dtype = torch.promote_types(hidden.dtype, weight.dtype)
    if torch.is_autocast_enabled(hidden.device.type) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(hidden.device.type)
    found: tuple[Tensor, Tensor] = CrossEntropy.apply(  # type: ignore[no-untyped-call]  # of torch
        hidden, weight, target, smoothing, pad, cap, dtype, torch.is_grad_enabled()
    )
    return found


def cross_entropy_of_logits(
    logits: Tensor, target: Tensor, smoothing: float = 0.0, pad: int | None = None
) -> tuple[Tensor, Tensor]:
    """What :func:`cross_entropy` gives, from logits: ``(t v), (t) -> (), (t)``."""
    smoothed, nll = class_losses(logits, target, smoothing, pad)
    return smoothed.sum(), nll.detach()


def chunk_losses(
    logits: Tensor,
    target: Tensor,
    out: Tensor,
    train: bool,
    smoothing: float,
    other: float,
    pad: int | None,
    cap: float | None,
) -> tuple[Tensor, Tensor]:
    """``-log p_y`` and the loss of each token, ``log Z - sum_j q_j logit_j``: ``(t v), (t) -> (t),
    (t)``. With ``train``, ``out`` ``(t v)`` has ``p - q`` times the slope of the cap then.

    ``q`` is ``other`` but at the target and at ``pad``. Without a cap, where the sum over ``j`` of
    ``other logit_j`` and of its gradients is known without the logits, it is left out.
    """
    y = target[:, None]
    if cap is not None:
        logits.div_(cap).tanh_().mul_(cap)
    log_p = torch.log_softmax(logits, 1, out=out)
    log_p_y, logit_y = log_p.gather(1, y), logits.gather(1, y)
    # - sum_j q_j log p_j = log Z - sum_j q_j logit_j, and log Z = logit_y - log p_y
    loss = (logit_y - log_p_y - (1 - smoothing - other) * logit_y)[:, 0]
    if pad is not None:
        loss += other * logits[:, pad]
    if cap is not None:
        loss -= other * logits.sum(1)
    if train:
        p = log_p.exp_()
        p.scatter_add_(1, y, torch.full_like(log_p_y, other + smoothing - 1))
        if pad is not None:
            p[:, pad] += other
        if cap is not None:
            p.sub_(other).mul_(logits.div_(cap).square_().neg_().add_(1.0))
    return -log_p_y[:, 0], loss


class CrossEntropy(torch.autograd.Function):
    """Computes the gradients in the forward pass, so that logits need not be kept, and multiplies
    them by the incoming gradient in the backward pass.

    The sum of a token's logits is ``h . sum_j w_j``, without another pass over the logits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        pad: int | None,
        cap: float | None,
        dtype: torch.dtype,
        train: bool,
    ) -> tuple[Tensor, Tensor]:
        acc_dtype = torch.promote_types(dtype, torch.float32)
        if not hidden.is_cuda:  # only CUDA multiplies bf16 matrices into an fp32 result (out_dtype)
            dtype = acc_dtype
        hidden, weight = hidden.to(dtype), weight.to(dtype)
        t, v, other = len(target), len(weight), share(smoothing, len(weight), pad)
        loss, nll = hidden.new_zeros((), dtype=acc_dtype), hidden.new_empty(t, dtype=acc_dtype)
        d_hidden = torch.empty_like(hidden, dtype=acc_dtype) if train else None
        d_weight = torch.zeros_like(weight, dtype=acc_dtype) if train else None
        rows = chunk_rows(hidden.device, v)
        buffer = hidden.new_empty(min(rows, t), v, dtype=acc_dtype)
        with without_autocast(hidden):
            for start in range(0, t, rows):
                h, y = hidden[start : start + rows], target[start : start + rows]
                p, logits = buffer[: len(y)], matmul(h, weight.mT, acc_dtype)
                each = chunk_losses(logits, y, p, train, smoothing, other, pad, cap)
                del logits
                nll[start : start + rows] = each[0]
                loss += each[1].sum()
                if d_hidden is not None and d_weight is not None:
                    p = p.to(dtype)
                    d_hidden[start : start + rows] = matmul(p, weight, acc_dtype)
                    add_matmul(d_weight, p.mT, h)
            if cap is None:
                hidden_sum, weight_sum = (x.sum(0, dtype=acc_dtype) for x in (hidden, weight))
                loss -= other * (hidden_sum @ weight_sum)
                if d_hidden is not None and d_weight is not None:
                    d_hidden -= other * weight_sum
                    d_weight -= other * hidden_sum
        ctx.mark_non_differentiable(nll)
        ctx.save_for_backward(d_hidden, d_weight)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise BadOption(
                "cross_entropy has no second derivatives: take cross_entropy_of_logits for these"
            )
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * scale, d_weight * scale, *(None,) * 6


def chunk_rows(device: torch.device, vocab_size: int) -> int:
    """The number of tokens in a chunk.

    512 on a CPU, where small chunks use its caches better. On an accelerator, which is faster with
    large matrices, the number whose fp32 logits take 256 MiB, at least 512.
    """
    return 512 if device.type == "cpu" else max(512, 2**26 // vocab_size)


def matmul(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """``a b``, accumulated and stored in this dtype."""
    return linear(a, b.mT, training=True) if a.dtype == dtype else torch.mm(a, b, out_dtype=dtype)


def add_matmul(total: Tensor, a: Tensor, b: Tensor) -> None:
    """``total += a b``, accumulated in the dtype of ``total``."""
    if goes_by_onednn(a, b.mT, training=True):
        total += linear(a, b.mT, training=True)
    elif a.dtype == total.dtype:
        total.addmm_(a, b)
    else:
        total += torch.mm(a, b, out_dtype=total.dtype)
