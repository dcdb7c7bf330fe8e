"""Dropout draws fairly, remembers what it drew, and leaves the rest alone."""

import pytest
import torch
from torch.testing import assert_close

from tfzoo.base import functional
from tfzoo.base.functional import dropout


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Small tensors too."""
    monkeypatch.setattr(functional, "LARGE", 0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_zeros_a_share_and_scales_the_rest(p, dtype):
    torch.manual_seed(0)
    x = torch.ones(500, 403, dtype=dtype, requires_grad=True)
    y = dropout(x, p)
    share = (y == 0).float().mean()
    assert y.dtype == dtype
    assert_close(share, torch.tensor(p), atol=0.005, rtol=0.0)
    assert_close(
        y[y != 0].float(),
        torch.full_like(y[y != 0], 1 / (1 - p), dtype=torch.float32),
        atol=0.0,
        rtol=0.01,
    )
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert_close(grad, y.detach())


def test_neighbours_are_independent():
    """Four decisions come from one random number: no two of them may know of each other."""
    torch.manual_seed(0)
    kept = (dropout(torch.ones(100_000, 4), 0.5) != 0).float()
    assert_close(torch.corrcoef(kept.T), torch.eye(4), atol=0.02, rtol=0.0)


def test_ends():
    x = torch.randn(5)
    assert dropout(x, 0.0) is x
    assert not dropout(x, 1.0).any()


def test_same_seed_same_draw_also_for_views():
    x = torch.randn(6, 7, 8)
    for view in (x, x.transpose(0, 2)):
        torch.manual_seed(3)
        first = dropout(view, 0.3)
        torch.manual_seed(3)
        assert torch.equal(dropout(view, 0.3), first)


@pytest.mark.parametrize("shape", [(0,), (8,), (3, 5, 4)])
def test_the_backward_keeps_a_byte_of_each_entry(shape):
    kept = []
    x = torch.ones(shape, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda one: kept.append(one) or one, lambda one: one
    ):
        y = dropout(x, 0.5)
    assert sum(one.nbytes for one in kept) == x.numel()
    assert_close(torch.autograd.grad(y.sum(), x)[0], y.detach())
