"""Scores of additive attention equal their formula in float64, whatever the sizes and ranges."""

import pytest
import torch
from torch.testing import assert_close

from tfzoo.attention import _tanh_scores
from tfzoo.attention._tanh_scores import tanh_scores

SIZES = pytest.mark.parametrize(("q", "k", "hidden"), [(5, 9, 8), (7, 60, 4), (33, 5, 6)])
"""Short and long rows of keys have a kernel each."""


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """Also for small inputs, in several blocks of which the last is smaller."""
    monkeypatch.setattr(_tanh_scores, "SMALL", 0)
    monkeypatch.setattr(_tanh_scores, "BLOCK", 150)


def drawn(q, k, hidden, scale=3.0):
    torch.manual_seed(0)
    shapes = (2, 3, q, hidden), (2, 3, k, hidden), (3, hidden)
    return [(torch.randn(shape, dtype=torch.float64) * scale).requires_grad_() for shape in shapes]


def exact(a, b, v):
    hidden = torch.tanh(a[..., :, None, :] + b[..., None, :, :])
    return (hidden * v[:, None, None]).sum(-1)


def agrees(inputs):
    """Scores and gradients: in float64 to 1e-9, in fp32 to a few roundings per hidden unit."""
    for dtype, limit in ((torch.float64, 1e-9), (torch.float32, 2e-6)):
        given = [x.detach().to(dtype).requires_grad_() for x in inputs]
        scores, wanted = tanh_scores(*given), exact(*(x.double() for x in given))
        slope = torch.randn(scores.shape, dtype=torch.float64)
        grads = torch.autograd.grad(scores, given, slope.to(dtype))
        exact_grads = torch.autograd.grad(wanted, given, slope)
        for x, y in zip((scores, *grads), (wanted, *exact_grads), strict=True):
            size = max(1.0, float(y.detach().abs().max()))
            assert_close(x.double(), y.double(), atol=limit * inputs[2].numel() * size, rtol=0.0)


@SIZES
@pytest.mark.parametrize(
    ("of_a", "of_b", "offset"),
    [
        (1, 1, 0.0),
        *((1, 1, offset) for offset in (24.5, -30.0, 1000.0)),  # a = 25, b = -24.5 is tanh(0.5)
        *((1, 100, 0.0), (100, 1, 0.0), (100, 100, 0.0)),
    ],
)
def test_scores_are_the_formula_whatever_the_ranges(of_a, of_b, offset, q, k, hidden):
    a, b, v = drawn(q, k, hidden)
    a, b = (of_a * a + offset).float().double(), (of_b * b - offset).float().double()
    agrees([a.detach(), b.detach(), v])


def test_the_batch_size_does_not_change_the_scores():
    """One example of the review: sixteen hidden units of ``v = 1``."""
    for batch in (1, 2, 64):
        a, b = torch.full((batch, 1, 3, 16), 25.0), torch.full((batch, 1, 60, 16), -24.5)
        scores = tanh_scores(a, b, torch.ones(1, 16))
        wanted = 16 * torch.tanh(torch.tensor(0.5))
        assert_close(scores, wanted.expand(scores.shape), atol=1e-5, rtol=0.0)


def test_scores_are_finite_where_tanh_is_flat():
    a = torch.tensor([-1e4, -50.0, 0.0, 50.0, 1e4]).view(1, 1, 5, 1).requires_grad_()
    for k in (5, 60):
        b = torch.linspace(-5.0, 5.0, k).view(1, 1, k, 1).requires_grad_()
        scores = tanh_scores(a, b, torch.ones(1, 1))
        assert_close(scores, torch.tanh(a + b.mT), atol=1e-6, rtol=1e-5)
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(scores.sum(), (a, b)))


@pytest.mark.parametrize("k", [5, 60])
@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_gradients_and_second_derivatives_are_right(k, scale):
    torch.manual_seed(0)
    a, b, v = (torch.randn(s, dtype=torch.float64) for s in ((2, 1, 2, 2), (2, 1, k, 2), (1, 2)))
    a, b = a * scale, b * scale
    for x in (a, b, v):
        x.requires_grad_()
    assert torch.autograd.gradcheck(tanh_scores, (a, b, v))
    if scale == 1.0:
        assert torch.autograd.gradgradcheck(tanh_scores, (a, b, v))
