"""Inputs, masks and the formula for tests of additive attention's kernels."""

import torch
from torch.testing import assert_close

from tfzoo.masks import Mask

B, H, Q, K, C, E = 3, 2, 70, 90, 4, 5


def masks():
    draw = torch.Generator().manual_seed(1)
    real = torch.arange(K) < torch.tensor([[K], [50], [0]])
    distance = torch.arange(Q)[:, None] + (K - Q) - torch.arange(K)
    return {
        "open": Mask(),
        "causal": Mask(causal=True),
        "causal, queries before all keys": Mask(causal=True, start=0),
        "causal, first keys seen by all": Mask(causal=True, start=200),
        "padded": Mask(keys=real),
        "padded on the left, causal": Mask(causal=True, keys=real.flip(1)),
        "the same padding for all texts": Mask(keys=real[1:2]),
        "a window": Mask(causal=True, allowed=(distance < 7)[None, None]),
        "other keys for each head": Mask(allowed=torch.rand(1, H, Q, K, generator=draw) > 0.5),
        "other keys for each text": Mask(allowed=torch.rand(B, 1, Q, K, generator=draw) > 0.9),
        "nothing": Mask(allowed=torch.zeros(1, 1, Q, K, dtype=torch.bool)),
    }


def inputs(dtype=torch.float64, scale=1.0):
    """``a``, ``b``, ``v`` and values; heads behind tokens in memory."""
    draw = torch.Generator().manual_seed(0)
    shapes = (B, Q, H, C), (B, K, H, C), (H, C), (B, K, H, E)
    drawn = [torch.randn(shape, generator=draw, dtype=dtype) for shape in shapes]
    drawn = [x.transpose(1, 2) if x.dim() == 4 else x for x in drawn]
    return [(x * (scale if n < 2 else 1.0)).requires_grad_() for n, x in enumerate(drawn)]


def reference(a, b, v, values, mask):
    scores = (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v[:, None, None]).sum(-1)
    return mask.softmax(scores) @ values


def agrees(one, other, given, limit):
    """Values and gradients."""
    slope = torch.randn(one.shape, generator=torch.Generator().manual_seed(2), dtype=one.dtype)
    pairs = zip(
        (one, *torch.autograd.grad(one, given, slope)),
        (other, *torch.autograd.grad(other, given, slope)),
        strict=True,
    )
    for x, y in pairs:
        assert x.isfinite().all()
        assert_close(x, y, atol=limit * max(1.0, float(y.detach().abs().max())), rtol=0.0)
