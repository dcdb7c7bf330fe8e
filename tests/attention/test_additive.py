"""Additive attention is its formula, and no score that a causal mask hides is computed."""

import pytest
import torch
from torch.testing import assert_close

from tfzoo.base.registry import create
from tfzoo.components.attention import _tanh_scores
from tfzoo.components.attention._tanh_scores import tanh_scores
from tfzoo.masks import Mask

B, H, Q, K, C, E = 3, 2, 70, 90, 4, 5


@pytest.fixture(autouse=True)
def in_blocks(monkeypatch):
    """Also for small inputs, in several blocks of which the last is smaller."""
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)
    monkeypatch.setattr(_tanh_scores, "BLOCK", 5000)
    monkeypatch.setattr(_tanh_scores, "ROWS", 16)


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


def drawn(q, k, hidden, scale=1.0):
    """``a``, ``b`` and ``v``; heads behind tokens in memory."""
    draw = torch.Generator().manual_seed(0)
    shapes = (B, q, H, hidden), (B, k, H, hidden), (H, hidden)
    a, b, v = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)
    return (scale * a).transpose(1, 2), (scale * b).transpose(1, 2), v


def exact(a, b, v):
    return (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * v[:, None, None]).sum(-1)


def agrees(found, wanted, given, exactly_given, limit):
    """Values and gradients."""
    slope = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(2)).double()
    ours = (found, *torch.autograd.grad(found, given, slope.to(found)))
    theirs = (wanted, *torch.autograd.grad(wanted, exactly_given, slope))
    for x, y in zip(ours, theirs, strict=True):
        size = max(1.0, float(y.detach().abs().max()))
        assert_close(x.to(y), y, atol=limit * size, rtol=0.0)


@pytest.mark.parametrize("name", masks())
@pytest.mark.parametrize("scale", [1.0, 300.0])  # the latter is too wide for exponentials
def test_any_mask(name, scale):
    attention = create("attention", "additive", heads=H, head_dim=C).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    a, b, _ = (x.requires_grad_() for x in drawn(Q, K, C, scale))
    values = torch.randn(B, H, K, E, dtype=torch.float64).requires_grad_()
    given = [a, b, values, *attention.parameters()]
    found = attention(a, b, values, mask=masks()[name])
    scores = exact(a @ attention.query, b @ attention.key, attention.score)
    agrees(found, masks()[name].softmax(scores) @ values, given, given, 1e-9)


def test_scores_behind_a_causal_mask_are_left_out(monkeypatch):
    monkeypatch.setattr(_tanh_scores, "ROWS", 1)
    scores = tanh_scores(*drawn(Q, K, C), first=3)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(4)
    assert not scores[..., later].any()
    assert scores[..., ~later].all()


@pytest.mark.parametrize(("q", "k", "hidden"), [(5, 9, 8), (7, 60, 4), (33, 5, 6)])
@pytest.mark.parametrize(
    ("of_a", "of_b", "offset"),
    [
        *((3, 3, offset) for offset in (0.0, 24.5, -30.0, 1000.0)),  # 25 - 24.5 is tanh(0.5)
        *((3, 300, 0.0), (300, 3, 0.0), (300, 300, 0.0)),
    ],
)
def test_scores_are_the_formula_whatever_the_ranges(of_a, of_b, offset, q, k, hidden, monkeypatch):
    """In float64 to 1e-9, in fp32 to a few roundings per hidden unit."""
    monkeypatch.setattr(_tanh_scores, "BLOCK", 150)
    a, b, v = drawn(q, k, hidden)
    inputs = (of_a * a + offset).float().double(), (of_b * b - offset).float().double(), 3 * v
    for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 2e-6)):
        given = [x.to(dtype).requires_grad_() for x in inputs]
        wide = [x.detach().double().requires_grad_() for x in given]
        agrees(tanh_scores(*given), exact(*wide), given, wide, limit * v.numel())


def test_scores_are_finite_where_tanh_is_flat():
    a = torch.tensor([-1e4, -50.0, 0.0, 50.0, 1e4]).view(1, 1, 5, 1).requires_grad_()
    for k in (5, 60):
        b = torch.linspace(-5.0, 5.0, k).view(1, 1, k, 1).requires_grad_()
        scores = tanh_scores(a, b, torch.ones(1, 1))
        assert_close(scores, torch.tanh(a + b.mT), atol=1e-6, rtol=1e-5)
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(scores.sum(), (a, b)))
